// The signals that the shipper's thread listens for, and their effect there; real signals in real processes: test/signals.test.ts.

import { expect, test } from 'vitest';
import { type EndingSignal, endingSignals } from './signal-claims.ts';
import { SignalWatch } from './signal-watch.ts';

/** A system of signals: listeners get a sent signal, and without any the process ends. */
class System {
  readonly words = new SharedArrayBuffer(4 * 2 * endingSignals.length);
  readonly claims = new Int32Array(this.words, 0, endingSignals.length);
  readonly listening = new Map<object, { readonly signal: number; readonly hear: () => void }>();
  endedBy: EndingSignal | undefined;
  refuses = false;

  watch(): SignalWatch {
    const system = this;
    return new SignalWatch({
      words: this.words,
      watched: new Int32Array(new SharedArrayBuffer(4 * endingSignals.length)),
      send: (signal) => this.send(signal),
      makeHandle: this.refuses
        ? undefined
        : () => ({
            onsignal: () => {},
            start(signal: number) {
              system.listening.set(this, { signal, hear: () => this.onsignal() });
              return 0;
            },
            unref: () => {},
            close() {
              system.listening.delete(this);
            },
          }),
    });
  }

  send(signal: EndingSignal): void {
    const number = { SIGTERM: 15, SIGINT: 2, SIGHUP: 1 }[signal];
    const hear = [...this.listening.values()].filter((one) => one.signal === number);
    const isProgrammes = ((this.claims[endingSignals.indexOf(signal)] ?? 0) & 1) === 1;
    if (hear.length === 0 && !isProgrammes) this.endedBy ??= signal;
    for (const { hear: deliver } of hear) deliver();
  }
}

const heardBy = (watch: SignalWatch): EndingSignal[] => {
  const heard: EndingSignal[] = [];
  watch.onHeard = () => {
    if (watch.heard !== undefined) heard.push(watch.heard);
  };
  return heard;
};

test('a signal that nobody handles is heard once, and ends the process when it is let through', () => {
  const system = new System();
  const watch = system.watch();
  const heard = heardBy(watch);
  system.send('SIGINT');
  expect([heard, system.endedBy]).toEqual([['SIGINT'], undefined]);
  watch.raise();
  expect([heard, system.endedBy]).toEqual([['SIGINT'], 'SIGINT']);
});

test('one that comes before anybody asks for it waits', () => {
  const system = new System();
  const watch = system.watch();
  system.send('SIGTERM');
  expect(heardBy(watch)).toEqual(['SIGTERM']);
});

test('a second one, of whichever kind, ends the process at once by the first', () => {
  const system = new System();
  const watch = system.watch();
  heardBy(watch);
  system.send('SIGTERM');
  system.send('SIGINT');
  expect(system.endedBy).toBe('SIGTERM');
});

test('what the program handles is not watched, and from the moment on that it is not, it is', () => {
  const system = new System();
  system.claims[1] = 1;
  const watch = system.watch();
  const heard = heardBy(watch);
  system.send('SIGINT');
  expect(heard).toEqual([]);
  system.claims[1] = 2;
  watch.update();
  system.send('SIGINT');
  expect(heard).toEqual(['SIGINT']);
});

test('a signal is the program’s from the moment on that it begins to listen, also where the watch has not heard of it', () => {
  const system = new System();
  const heard = heardBy(system.watch());
  system.claims[0] = 1;
  system.send('SIGTERM');
  // The program listened, and no longer does: that signal was its own.
  system.claims[0] = 2;
  expect([heard, system.endedBy]).toEqual([[], undefined]);
});

test('two shippers of one process: the signal goes on when both are done, and neither takes it for a second one', () => {
  const system = new System();
  const [first, second] = [system.watch(), system.watch()];
  const heard = [heardBy(first), heardBy(second)];
  system.send('SIGTERM');
  first.raise();
  expect([heard, system.endedBy]).toEqual([[['SIGTERM'], ['SIGTERM']], undefined]);
  second.raise();
  expect(system.endedBy).toBe('SIGTERM');
});

test('where Node has no handles for us, signals do at once what they always did', () => {
  const system = new System();
  system.refuses = true;
  const heard = heardBy(system.watch());
  system.send('SIGHUP');
  expect([heard, system.endedBy]).toEqual([[], 'SIGHUP']);
});

test('after its end it hears nothing', () => {
  const system = new System();
  const watch = system.watch();
  const heard = heardBy(watch);
  watch.end();
  watch.update();
  system.send('SIGINT');
  expect([heard, system.endedBy]).toEqual([[], 'SIGINT']);
});
