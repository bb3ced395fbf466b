// The timeline of a run for as long as the run is looked at: going to another page and back finds its tiles, its rows and its place as they were.

import type { RunClient } from '../client/run-client.ts';
import type { ViewState } from '../client/view-state.ts';
import { TimelineSession } from './session.ts';

export class KeptSessions {
  readonly #sessions = new Map<RunClient, TimelineSession>();

  /** The session of a run that is followed; it ends when `client` is closed. */
  of(client: RunClient, state: ViewState): TimelineSession {
    const kept = this.#sessions.get(client);
    if (kept?.state === state) return kept;
    kept?.dispose();
    const session = new TimelineSession(client, state);
    this.#sessions.set(client, session);
    if (kept === undefined) {
      client.onClose(() => {
        this.#sessions.get(client)?.dispose();
        this.#sessions.delete(client);
      });
    }
    return session;
  }
}
