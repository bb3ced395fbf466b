# Runs a command on a terminal of its own, as ssh does:   python3 terminal.py COLUMNS ROWS COMMAND ARGS...
#
# What the command writes goes to stdout. Lines of stdin are what a person does: "keys HEX" types, "size COLUMNS ROWS" resizes. At the end of
# stdin the terminal hangs up. Exits with the command's exit code, 128 + n where a signal ended it.

import fcntl
import os
import pty
import select
import struct
import sys
import termios


def resize(terminal, columns, rows):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", int(rows), int(columns), 0, 0))


def main():
    columns, rows, *command = sys.argv[1:]
    child, terminal = pty.fork()
    if child == 0:
        # Before the command can ask for it.
        resize(0, columns, rows)
        os.execvp(command[0], command)
    pending = b""
    sources = [terminal, sys.stdin.fileno()]
    while terminal in sources:
        readable, _, _ = select.select(sources, [], [])
        if terminal in readable:
            try:
                written = os.read(terminal, 65536)
            except OSError:
                written = b""
            if written == b"":
                sources.remove(terminal)
            os.write(1, written)
        if sys.stdin.fileno() in readable:
            told = os.read(sys.stdin.fileno(), 65536)
            if told == b"":
                break
            *lines, pending = (pending + told).split(b"\n")
            for line in lines:
                what, *words = line.decode().split()
                if what == "keys":
                    os.write(terminal, bytes.fromhex(words[0]))
                else:
                    resize(terminal, *words)
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


main()
