// How long something is waited for. `AbortSignal.any` over an `AbortSignal.timeout` would say it in fewer words, but the garbage collector may
// take that timeout before it fires (nodejs/node issue 57736), and a signal that lives as long as a service keeps something of each such call.

/**
 * What `task` resolves or rejects with. The signal that it is given aborts with the reason of `signal`, or after `waitMs` with a DOMException
 * `TimeoutError`; both are let go when the task ends.
 */
export async function withDeadline<Result>(
  signal: AbortSignal,
  waitMs: number,
  task: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const ending = new AbortController();
  const end = (): void => ending.abort(signal.reason);
  const timer = setTimeout(() => ending.abort(new DOMException(`no end within ${waitMs / 1000} s`, 'TimeoutError')), waitMs);
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  try {
    return await task(ending.signal);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
  }
}
