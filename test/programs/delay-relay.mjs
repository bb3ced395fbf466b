// A slow network in user space, for machines whose kernel has no netem: forwards TCP with a delay per direction.
//
//   node delay-relay.mjs THERE_MS BACK_MS JITTER_MS
//
// Each line on stdin, ADDRESS:PORT, is a target; answered on stdout by the port of 127.0.0.1 that leads there. Ends with stdin.
// A chunk waits THERE or BACK, and up to JITTER more; never overtakes the one before it, as in a TCP stream.

import { connect, createServer } from 'node:net';
import { createInterface } from 'node:readline';

const [there, back, jitter] = process.argv.slice(2).map(Number);

/** Calls `deliver` at `due`, ms; not before, and little after: timers alone are a millisecond late. */
function at(due, deliver) {
  const wait = due - performance.now();
  if (wait <= 0) deliver();
  else if (wait > 2) setTimeout(at, wait - 1.5, due, deliver);
  else setImmediate(at, due, deliver);
}

function forward(from, to, delay) {
  let due = 0;
  // The first one due may be called second.
  const waiting = [];
  const deliver = () => waiting.shift()();
  const enqueue = (action) => {
    due = Math.max(due, performance.now() + delay + jitter * Math.random());
    waiting.push(action);
    at(due, deliver);
  };
  from.on('data', (chunk) => enqueue(() => to.write(chunk)));
  from.on('end', () => enqueue(() => to.end()));
  from.on('error', () => to.destroy());
}

for await (const line of createInterface({ input: process.stdin })) {
  const [host, port] = line.split(':');
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (near) => {
    const far = connect({ host, port: Number(port), noDelay: true, allowHalfOpen: true });
    forward(near, far, there);
    forward(far, near, back);
  });
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));
}
process.exit();
