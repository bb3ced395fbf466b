// One question that may take long: its progress, its answer, or the reason why there is none; cancelled when it is no longer needed.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { RequestOptions } from './connection.ts';

export interface Answer<Value> {
  readonly value: Value | undefined;
  /** Part that is done, 0 to 1, while the question is under way. */
  readonly progress: number | undefined;
  /** Reason why there is no answer, for a person. */
  readonly problem: string | undefined;
  /** Cancels the question. */
  readonly stop: () => void;
  /** Asks (again). */
  readonly again: () => void;
}

interface Announcement<Value> {
  readonly value?: Value;
  readonly progress?: number;
  readonly problem?: string;
}

/**
 * Asks whenever `key` changes; with an undefined key it asks nothing. An answer to an earlier question is never shown for the current one.
 *
 * @example useAnswer((options) => client.area(area, options), `${area.from} ${area.until}`)
 */
export function useAnswer<Value>(ask: (options: RequestOptions) => Promise<Value>, key: string | undefined): Answer<Value> {
  const [reported, setReported] = useState<Announcement<Value>>({});
  const [attempt, setAttempt] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  const abort = useRef<AbortController | undefined>(undefined);
  useEffect(() => {
    if (key === undefined) return setReported({});
    const own = new AbortController();
    abort.current = own;
    const report = (next: Announcement<Value>): void => {
      if (!own.signal.aborted) setReported(next);
    };
    setReported({ progress: 0 });
    latest
      .current({ signal: own.signal, onProgress: (done, total) => report({ progress: total > 0 ? done / total : 0 }) })
      .then((value) => report({ value }))
      .catch((error: unknown) => report({ problem: (error as Error).message }));
    return () => own.abort();
  }, [key, attempt]);
  const stop = useCallback(() => {
    abort.current?.abort();
    setReported({ problem: 'Stopped.' });
  }, []);
  const again = useCallback(() => setAttempt((before) => before + 1), []);
  return { value: reported.value, progress: reported.progress, problem: reported.problem, stop, again };
}
