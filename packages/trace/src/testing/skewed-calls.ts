// Remote calls between services with disagreeing clocks, as Zipkin's JSON (version 2), and their true times.
//
//   gateway   ├─ server ─────────────────────────────────────────────┤        true times; each service records them on its own clock
//                ├─ client ────────────┤   ├─ client ───────┤
//   others            ├─ server ──┤             ├─ server ┤                   half of the services share the client's id, half have their own
//                        ├─ work ─────────┤                                   may outlive the server: no span waits for it

import { Random } from '../simulate/random.ts';

export interface SkewedCalls {
  /** The file. */
  readonly bytes: Uint8Array;
  /** Spans by side. */
  readonly sides: { readonly client: number; readonly server: number; readonly work: number };
  /** Calls with both sides in the file. */
  readonly pairs: number;
  /** True start by the span's side and its unique name, µs after the first. */
  readonly starts: ReadonlyMap<string, number>;
}

const services = ['search', 'basket', 'prices', 'users'];
const day = 1_790_000_000_000_000;

/** `traces` requests to a gateway; the same for the same arguments. */
export function skewedCalls(seed: number, traces = 6): SkewedCalls {
  const random = new Random(seed, 'calls');
  const skews = new Map(['gateway', ...services].map((service, index) => [service, index === 0 ? 0 : random.whole(4e6) - 2e6]));
  const spans: object[] = [];
  const starts = new Map<string, number>();
  const sides = { client: 0, server: 0, work: 0 };
  let pairs = 0;
  let ids = 1;
  const span = (about: {
    readonly traceId: string;
    readonly id: string;
    readonly parentId: string | undefined;
    readonly service: string;
    readonly kind: 'CLIENT' | 'SERVER' | undefined;
    readonly start: number;
    readonly duration: number;
    readonly isShared?: boolean;
  }): void => {
    const { traceId, id, parentId, service, kind, start, duration, isShared } = about;
    const name = `${service} ${spans.length}`;
    const side = kind === undefined ? 'work' : kind === 'CLIENT' ? 'client' : 'server';
    sides[side]++;
    starts.set(`${side === 'work' ? '' : side} ${name}`, start);
    const timestamp = day + start + (skews.get(service) ?? 0);
    const place = { serviceName: service, ipv4: `10.0.0.${1 + [...skews.keys()].indexOf(service)}` };
    const notes = kind === undefined ? [{ timestamp: timestamp + 1, value: 'begun' }] : [];
    const given = { traceId, id, parentId, kind, name, timestamp, duration, localEndpoint: place, annotations: notes };
    spans.push(isShared === true ? { ...given, shared: true } : given);
  };
  const newId = (): string => (0x1000 + ids++).toString(16).padStart(16, '0');
  for (let trace = 0; trace < traces; trace++) {
    const traceId = newId();
    const root = newId();
    const begun = trace * 500_000 + random.whole(1000);
    let now = begun + 300;
    for (const [index, service] of services.entries()) {
      const [there, back] = [200 + random.whole(600), 200 + random.whole(600)];
      const inside = 2000 + random.whole(20_000);
      const client = newId();
      span({ traceId, id: client, parentId: root, service: 'gateway', kind: 'CLIENT', start: now, duration: there + inside + back });
      // Else the service was not configured to report.
      if (random.chance(0.85)) {
        const isShared = index % 2 === 0;
        const server = isShared ? client : newId();
        const start = now + there;
        const parentId = isShared ? root : client;
        span({ traceId, id: server, parentId, service, kind: 'SERVER', start, duration: inside, isShared });
        const duration = random.chance(0.3) ? 4 * inside : inside >> 1;
        span({ traceId, id: newId(), parentId: server, service, kind: undefined, start: start + 50, duration });
        pairs++;
      }
      now += there + inside + back + random.whole(500);
    }
    span({ traceId, id: root, parentId: undefined, service: 'gateway', kind: 'SERVER', start: begun, duration: now - begun + 200 });
  }
  // Reporters send in random order.
  for (let at = spans.length - 1; at > 0; at--) {
    const other = random.whole(at + 1);
    [spans[at], spans[other]] = [spans[other] as object, spans[at] as object];
  }
  return { bytes: new TextEncoder().encode(JSON.stringify(spans, undefined, 2)), sides, pairs, starts };
}
