// Several network hosts on one machine: a network namespace each, connected by a switch, and beside that fast network a slow one.
//
//   root namespace ──veth──┐
//   host a ────────────────┤ switch (a namespace of its own, so that no firewall rule of the machine is about its bridges)
//   host b ────────────────┤
//   host c ────────────────┘     fast 198.18.N.0/24      slow 198.19.N.0/24, each direction later by a time of its own
//
// Where the kernel has netem, the slow network is a second bridge with it. Elsewhere a relay in user space (programs/delay-relay.mjs), one
// in each namespace, forwards over the fast one. `slowly` gives the address for both.
//
// Invariant: disposing ends every process that was started here and removes every namespace, and with them all devices. The next test
// removes the leftovers of a killed one: names hold the process id.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { repository } from './ranktrace-command.ts';

export interface Way {
  /** From the host into the network, and from there to it, ms; each up to `jitterMs` more. */
  readonly thereMs: number;
  readonly backMs: number;
  readonly jitterMs: number;
}

export interface HostProgram {
  readonly child: ChildProcess;
  /** Exit code, or the signal that ended it, and its output. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null; readonly output: string }>;
}

export interface NetworkHost {
  readonly name: string;
  /** On the fast network. */
  readonly address: string;
  /** Starts `node ARGS…` on this host. */
  start(args: readonly string[], environment: Record<string, string>): HostProgram;
  /** ADDRESS:PORT by which a process of this host reaches `target` (ADDRESS:PORT on the fast network) over the slow network. */
  slowly(target: string): Promise<string>;
}

export interface Network extends Disposable {
  /** The root namespace's address on the fast network. */
  readonly root: string;
  readonly hosts: readonly NetworkHost[];
  /** The means that slow the network: netem or the relay. */
  readonly delay: 'netem' | 'relay';
  /** Starts `node ARGS…` in the root namespace. Its stdin stays open until it is disposed of. */
  start(args: readonly string[]): HostProgram;
}

const prefix = 'rt-hosts-';

/** A network of hosts with these names and delays; or the reason why this machine does not allow it. */
export function openNetwork(ways: Readonly<Record<string, Way>>): Network | { readonly reason: string } {
  try {
    removeLeftovers();
    ip('netns', 'add', `${prefix}${process.pid}-probe`);
    ip('netns', 'del', `${prefix}${process.pid}-probe`);
  } catch (error) {
    return { reason: `network namespaces need root and the command ip: ${(error as Error).message.trim().split('\n').at(-1)}` };
  }
  const network = new Namespaces();
  try {
    for (const [name, way] of Object.entries(ways)) network.add(name, way);
    return network;
  } catch (error) {
    network[Symbol.dispose]();
    throw error;
  }
}

class Namespaces implements Network {
  readonly hosts: NetworkHost[] = [];
  readonly delay: 'netem' | 'relay';
  readonly #name = `${prefix}${process.pid}`;
  readonly #switch = `${this.#name}-switch`;
  readonly #octet = process.pid % 256;
  readonly #children = new Set<ChildProcess>();
  readonly #dispose = () => this[Symbol.dispose]();

  constructor() {
    process.once('exit', this.#dispose);
    ip('netns', 'add', this.#switch);
    for (const bridge of ['fast', 'slow']) inside(this.#switch, 'ip', 'link', 'add', bridge, 'up', 'type', 'bridge');
    this.delay = this.#hasNetem() ? 'netem' : 'relay';
    this.#connect(undefined, 'fast', 1);
    this.#connect(undefined, 'slow', 1);
  }

  get root(): string {
    return this.#address('fast', 1);
  }

  add(name: string, way: Way): void {
    const number = 11 + this.hosts.length;
    const namespace = `${this.#name}-${name}`;
    ip('netns', 'add', namespace);
    inside(namespace, 'ip', 'link', 'set', 'lo', 'up');
    this.#connect(namespace, 'fast', number);
    this.#connect(namespace, 'slow', number);
    if (this.delay === 'netem') {
      const netem = (of: string, device: string, delayMs: number) =>
        inside(of, ...`tc qdisc add dev ${device} root netem delay ${delayMs + way.jitterMs / 2}ms ${way.jitterMs / 2}ms`.split(' '));
      netem(namespace, 'slow', way.thereMs);
      netem(this.#switch, `slow${number}`, way.backMs);
    }
    let relay: ((target: string) => Promise<string>) | undefined;
    const start = (args: readonly string[], environment: Record<string, string>): HostProgram =>
      // A host has a name of its own, too.
      this.#start(
        'ip',
        ['netns', 'exec', namespace, 'unshare', '--uts', 'sh', '-c', 'hostname "$0" && exec "$@"', name],
        args,
        environment,
      );
    this.hosts.push({
      name,
      address: this.#address('fast', number),
      start,
      slowly: async (target) => {
        if (this.delay === 'netem') return target.replace(/^198\.18\./, '198.19.');
        relay ??= relayOf(start(['test/programs/delay-relay.mjs', `${way.thereMs}`, `${way.backMs}`, `${way.jitterMs}`], {}));
        return relay(target);
      },
    });
  }

  start(args: readonly string[]): HostProgram {
    return this.#start(process.execPath, [], args, {});
  }

  [Symbol.dispose](): void {
    process.off('exit', this.#dispose);
    for (const child of this.#children) child.kill('SIGKILL');
    // The kernel needs time to remove a namespace and its devices.
    for (const device of ip('-brief', 'link')
      .split('\n')
      .map((line) => line.split('@')[0] ?? '')) {
      if (device === `rt${process.pid}f` || device === `rt${process.pid}s`) ip('link', 'del', device);
    }
    remove((name) => name === this.#name || name.startsWith(`${this.#name}-`));
  }

  #start(program: string, before: readonly string[], args: readonly string[], environment: Record<string, string>): HostProgram {
    const given = program === process.execPath ? args : [...before, process.execPath, ...args];
    const child = spawn(program, given, { cwd: repository, env: { ...process.env, ...environment }, stdio: ['pipe', 'pipe', 'pipe'] });
    this.#children.add(child);
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
    }
    const ended = new Promise<Awaited<HostProgram['ended']>>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, signal) => {
        this.#children.delete(child);
        resolve({ code, signal, output });
      });
    });
    return { child, ended };
  }

  #address(network: string, number: number): string {
    return `198.${network === 'fast' ? 18 : 19}.${this.#octet}.${number}`;
  }

  /** A cable from a namespace (undefined: root) to the switch. The device has the network's name; in the root namespace one of its own. */
  #connect(namespace: string | undefined, network: 'fast' | 'slow', number: number): void {
    const port = `${network}${number}`;
    const device = namespace === undefined ? `rt${process.pid}${network.charAt(0)}` : network;
    const cable = ['ip', 'link', 'add', port, 'type', 'veth', 'peer', 'name', device, 'netns', namespace ?? `${process.pid}`];
    inside(this.#switch, ...cable);
    inside(this.#switch, 'ip', 'link', 'set', port, 'master', network, 'up');
    const configure = (...args: string[]) => (namespace === undefined ? ip(...args) : inside(namespace, 'ip', ...args));
    configure('addr', 'add', `${this.#address(network, number)}/24`, 'dev', device);
    configure('link', 'set', device, 'up');
  }

  #hasNetem(): boolean {
    try {
      inside(this.#switch, ...'tc qdisc add dev slow root netem delay 1ms'.split(' '));
      inside(this.#switch, ...'tc qdisc del dev slow root'.split(' '));
      return true;
    } catch {
      return false;
    }
  }
}

/** Requests ports from a relay, one after the other. */
function relayOf({ child, ended }: HostProgram): (target: string) => Promise<string> {
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) throw new Error('The relay has no pipes');
  const answers = createInterface({ input: stdout })[Symbol.asyncIterator]();
  let last: Promise<string> = Promise.resolve('');
  const ask = async (target: string): Promise<string> => {
    stdin.write(`${target}\n`);
    const { value, done } = await answers.next();
    if (done === true) throw new Error(`The relay ended: ${(await ended).output}`);
    return `127.0.0.1:${String(value)}`;
  };
  return (target) => {
    last = last.then(() => ask(target));
    return last;
  };
}

function ip(...args: string[]): string {
  return execFileSync('ip', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

function inside(namespace: string, ...command: string[]): void {
  ip('netns', 'exec', namespace, ...command);
}

/** Removing the switch removes every cable. */
function remove(isMeant: (namespace: string) => boolean): void {
  for (const line of ip('netns', 'list').split('\n')) {
    const name = line.split(' ')[0] ?? '';
    if (isMeant(name)) ip('netns', 'del', name);
  }
}

function removeLeftovers(): void {
  remove((name) => {
    if (!name.startsWith(prefix)) return false;
    try {
      process.kill(Number.parseInt(name.slice(prefix.length), 10), 0);
      return false;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'ESRCH';
    }
  });
}
