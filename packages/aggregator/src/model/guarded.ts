// Guards calls that the event loop makes: timers, sockets, clients. Nobody catches an error there: thrown, or rejected and not awaited, it would end
// the service. So each such call goes through here; a test checks the code for it.

import { messageOf } from './errors.ts';

/** Runs a call; reports its failure in one line that names `what` (a noun: "the look at the certificate"). */
export type Guarded = <Arguments extends unknown[]>(what: string, call: (...args: Arguments) => unknown) => (...args: Arguments) => void;

/** Makes calls whose errors end here, with a notice. */
export function guardedBy(onNotice: (notice: string) => void): Guarded {
  return (what, call) => {
    const report = (error: unknown): void => onNotice(`Error in ${what}, and the service goes on: ${messageOf(error)}`);
    return (...args) => {
      try {
        const result = call(...args);
        if (result instanceof Promise) result.catch(report);
      } catch (error) {
        report(error);
      }
    };
  };
}
