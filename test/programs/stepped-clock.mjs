// A wall clock that can be set while the process runs: loaded by `--import` before the program, in each of its threads.
//
//   CLOCK_FILE=clock.json NODE_OPTIONS='--import=…/stepped-clock.mjs' node …
//
// The file holds {"at": MS, "shift": MS, "rate": R}: from unix time `at` on, the clock shows at + shift + R · (time since). Without the file it
// shows the time. Only users of `Date` get it; CLOCK_MONOTONIC and timers continue, as when a person sets a machine's clock.

import { readFileSync } from 'node:fs';

const TrueDate = Date;
const lookMs = 5;
let setting = { at: 0, shift: 0, rate: 1 };
let lookedAt = Number.NEGATIVE_INFINITY;

function now() {
  if (performance.now() - lookedAt > lookMs) {
    lookedAt = performance.now();
    try {
      setting = JSON.parse(readFileSync(process.env.CLOCK_FILE, 'utf8'));
    } catch {
      // Not set yet, or being written: unchanged.
    }
  }
  const time = TrueDate.now();
  return time < setting.at ? time : Math.floor(setting.at + setting.shift + setting.rate * (time - setting.at));
}

class SettableDate extends TrueDate {
  constructor(...given) {
    super(...(given.length === 0 ? [now()] : given));
  }
  static now = now;
}
Object.defineProperty(SettableDate, 'name', { value: 'Date' });
globalThis.Date = SettableDate;
