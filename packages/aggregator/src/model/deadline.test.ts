import { once } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { withDeadline } from './deadline.ts';

const never = new AbortController().signal;
const minute = 60_000;

/** Ends by its signal alone. */
async function aborted(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, 'abort');
  throw signal.reason;
}

describe('withDeadline', () => {
  it('ends a task that goes on for longer', async () => {
    await expect(withDeadline(never, 20, aborted)).rejects.toMatchObject({ name: 'TimeoutError', message: 'no end within 0.02 s' });
  });

  it('ends it also where nothing but the timer holds on to the signal, and garbage is collected', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const ended = withDeadline(
      never,
      200,
      (signal) =>
        new Promise<never>((_, reject) => {
          signal.onabort = () => reject(signal.reason);
        }),
    );
    const collecting = setInterval(collect, 10);
    await expect(ended)
      .rejects.toMatchObject({ name: 'TimeoutError' })
      .finally(() => clearInterval(collecting));
  });

  it('ends it with the signal, also with one that has aborted before', async () => {
    const controller = new AbortController();
    const ended = withDeadline(controller.signal, minute, aborted);
    controller.abort(new Error('the service ends'));
    await expect(ended).rejects.toThrow('the service ends');
    await expect(withDeadline(controller.signal, minute, aborted)).rejects.toThrow('the service ends');
  });

  it('gives what the task gives, and leaves the signal alone afterwards', async () => {
    let given: AbortSignal | undefined;
    const result = await withDeadline(never, 20, async (signal) => {
      given = signal;
      return 7;
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(result).toBe(7);
    expect(given?.aborted).toBe(false);
  });
});
