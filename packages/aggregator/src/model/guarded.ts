// Calls that the event loop makes: timers, sockets, clients. An error there is nobody's answer: thrown, or rejected with and not awaited, it would end the
// service. So each such call goes through here; a test holds the code to it.

import { messageOf } from './errors.ts';

/** Tells in one line what a call of `what` (a noun: "the look at the certificate") failed of. */
export type Guarded = <Arguments extends unknown[]>(what: string, call: (...args: Arguments) => unknown) => (...args: Arguments) => void;

/** Calls that end where they are made, with a notice. */
export function guardedBy(onNotice: (notice: string) => void): Guarded {
  return (what, call) => {
    const tell = (error: unknown): void => onNotice(`Error in ${what}, and the service goes on: ${messageOf(error)}`);
    return (...args) => {
      try {
        const result = call(...args);
        if (result instanceof Promise) result.catch(tell);
      } catch (error) {
        tell(error);
      }
    };
  };
}
