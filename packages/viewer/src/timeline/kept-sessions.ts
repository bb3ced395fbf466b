// Keeps the timeline of a run while the run is open: after a visit to another page its tiles, rows and place are as before.

import type { RunClient } from '../client/run-client.ts';
import type { ViewState } from '../client/view-state.ts';
import { TimelineSession } from './session.ts';

export class KeptSessions {
  readonly #sessions = new Map<RunClient, TimelineSession>();

  /** The session of a followed run; it ends when `client` is closed. */
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
