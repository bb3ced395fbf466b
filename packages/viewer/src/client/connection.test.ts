import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Connection, ConnectionLost } from './connection.ts';
import { RunClient } from './run-client.ts';

/** A line that a test opens and breaks. */
class Line extends EventTarget {
  static readonly OPEN = 1;
  static readonly all: Line[] = [];
  readyState = 0;
  readonly sent: { id: number; type: string; run?: string }[] = [];

  constructor() {
    super();
    Line.all.push(this);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }

  open(): void {
    this.readyState = 1;
    this.dispatchEvent(new Event('open'));
  }

  break(): void {
    this.readyState = 3;
    this.dispatchEvent(new Event('close'));
  }

  get types(): string[] {
    return this.sent.map(({ type, run }) => `${type} ${run}`);
  }
}

/** The next line, once the page tries again. */
async function nextLine(): Promise<Line> {
  await vi.advanceTimersByTimeAsync(10_000);
  return Line.all.at(-1) as Line;
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('WebSocket', Line);
  Line.all.length = 0;
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const area = { from: 0, until: 1, tracks: [] };

it('opens the run again before it asks what was asked without a line', async () => {
  const client = new RunClient(new Connection('line'), 'a');
  const first = await nextLine();
  first.open();
  expect(first.types).toEqual(['open a']);
  first.break();
  const waiting = client.area(area).catch((error: unknown) => error);
  const given = new AbortController();
  const gone = client.area(area, { signal: given.signal }).catch((error: unknown) => error);
  given.abort(new Error('moved on'));
  expect(await gone).toEqual(new Error('moved on'));
  const second = await nextLine();
  expect(second).not.toBe(first);
  second.open();
  expect(second.types).toEqual(['open a', 'area a']);
  // A request that was sent is lost with its line, and not sent again.
  second.break();
  expect(await waiting).toBeInstanceOf(ConnectionLost);
  const third = await nextLine();
  third.open();
  expect(third.types).toEqual(['open a']);
});

it('closes no run that was left without a line: it may be open again', async () => {
  const connection = new Connection('line');
  const client = new RunClient(connection, 'a');
  (await nextLine()).open();
  (Line.all[0] as Line).break();
  client.close();
  const again = new RunClient(connection, 'a');
  const line = await nextLine();
  line.open();
  expect(line.types).toEqual(['open a']);
  const asked = again.area(area).catch((error: unknown) => error);
  line.break();
  expect(await asked).toBeInstanceOf(ConnectionLost);
});
