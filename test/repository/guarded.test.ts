// Every timer and callback of the service goes through `guardedBy` (packages/aggregator/src/model/guarded.ts): an unhandled error there would
// end the service. The list names the few that do not, with the reason why they cannot fail.

import { expect, test } from 'vitest';
import { read, sourcesOf, withoutComments } from './source-files.ts';

/** Calls that hand a function to the event loop. */
const handsOver = /\b(?:setInterval|setTimeout|setImmediate)\((?=\S*[\s\S])|\.(?:on|once)\(|\bcallback:/g;

const harmless: Readonly<Record<string, readonly string[]>> = {
  // Settle a promise or a signal, or keep a value.
  'aggregator/src/service.ts': ['setTimeout(report, ', 'setTimeout(end, limits.flushWaitMsMax)', 'setTimeout(end, limits.flushQuietMs)'],
  'aggregator/src/model/deadline.ts': ['setTimeout(() => ending.abort('],
  'aggregator/src/alert/output-queue.ts': ['setTimeout(() => this.#stop.abort()', 'setTimeout(advance, '],
  'aggregator/src/http/capture-requests.ts': [".once('close', () => gone.abort("],
  'aggregator/src/http/trace-requests.ts': [".once('close', () => gone.abort("],
  'aggregator/src/http/http-service.ts': [
    ".once('error', reject)",
    ".on('error', (error) => options.onNotice(",
    ".on('error', () => undefined)",
    ".once('finish', () => socket.destroy())",
    'setTimeout(() => socket.destroy()',
  ],
  'aggregator/src/store/trace-file.ts': [
    ".on('error', keep)",
    ".once('error', onError)",
    ".once('close', resolve)",
    ".once('close', () => resolve())",
  ],
  'aggregator/src/view/turns.ts': ['setImmediate(() => this.#next())'],
  // Runs in a terminal, not in the service.
  'aggregator/src/view/view-client.ts': [
    ".on('message'",
    ".on('error'",
    ".on('close'",
    ".once('open'",
    ".once('error'",
    ".once('close'",
    ".addEventListener('abort'",
  ],
};

/** The text of a call from `from` to its closing bracket, or of a property to its end. */
function callAt(text: string, from: number): string {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    if (text[at] === '(') depth++;
    else if (text[at] === ')' && --depth <= 0) return text.slice(from, at + 1);
  }
  return text.slice(from);
}

test('every timer and callback of the service is guarded, or named here as harmless', () => {
  const open: string[] = [];
  let guarded = 0;
  for (const path of sourcesOf('aggregator')) {
    const name = path.replace(/^packages\//, '');
    const text = withoutComments(read(path));
    for (const { index } of text.matchAll(handsOver)) {
      const call = callAt(text, index).replaceAll(/\s+/g, ' ');
      // Without a function it resolves a promise.
      if (/^set\w+\((?:undefined|\d|limits|ms|resolve)?[^=(]*\)$/.test(call) && !call.startsWith('setTimeout(report')) continue;
      if (/guarded(?:By\([^)]*\))?\(/.test(call)) guarded++;
      else if (!(harmless[name] ?? []).some((text) => call.startsWith(text.replaceAll(/\s+/g, ' '))))
        open.push(`${name}: ${call.slice(0, 90)}`);
    }
  }
  expect(open).toEqual([]);
  expect(guarded).toBeGreaterThan(20);
});
