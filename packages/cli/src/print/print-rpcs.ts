// The report's part about remote calls: a table by (method, source → destination), anomalies, and the same as data.

import { printable } from '@ranktrace/protocol';
import type { LengthQuantiles, RpcParty, RpcRoute, RpcSummary } from '@ranktrace/trace';
import { formatCount, formatLengths, formatNanos, formatTable } from '../terminal/format.ts';

const routesShown = 20;

/** The part as text, without a final line end; '' when there were no calls. */
export function formatRpcs({ routes, routesLeftOut, halves }: RpcSummary): string {
  if (routes.length === 0 && halves.added === 0) return '';
  const shown = routes.slice(0, routesShown);
  const head = ['remote calls', 'from → to', 'calls', 'errors', 'total p50/p95/p99', 'server', 'network', 'out · back (p50)'];
  const rows = shown.map((route) => [
    route.method,
    placesOf(route),
    formatCount(route.calls),
    formatCount(route.errors),
    lengths(route.total),
    lengths(route.server),
    lengths(route.network),
    legs(route),
  ]);
  const lines = [formatTable([head, ...rows], [false, false, true, true, true, true, true, true])];
  const hidden = routes.length - shown.length;
  if (hidden > 0) lines.push(`(the ${shown.length} of ${formatCount(routes.length)} routes that took most time; all of them with --json)`);
  if (routesLeftOut > 0) lines.push(`(${formatCount(routesLeftOut)} or more routes share one line: there were too many)`);
  if (shown.some(({ network }) => network !== undefined)) {
    lines.push('network = total − server, which no clock error touches; how it divides into out and back is known to ± what is shown');
  }
  lines.push(...shown.flatMap(oddities));
  if (halves.givenUp > 0)
    lines.push(
      `  ${formatCount(halves.givenUp)} of ${formatCount(halves.added)} client and server spans could not be matched: ${whyOf(halves)}`,
    );
  return lines.join('\n');
}

/** The part as data: lengths in ns; unknown values are left out. */
export function rpcsData({ routes, routesLeftOut, halves }: RpcSummary): unknown {
  return {
    routes: routes.map(({ total, server, network, out, back, epsilon, ...route }) => ({
      ...route,
      totalNs: total,
      serverNs: server,
      networkNs: network,
      outNs: out,
      backNs: back,
      epsilonNs: epsilon,
    })),
    routesLeftOut,
    spans: halves,
  };
}

const nameOf = ({ name }: RpcParty): string => (name === '' ? '?' : name);

const placesOf = ({ source, destination }: RpcRoute): string => `${nameOf(source)} → ${nameOf(destination)}`;

const lengths = (quantiles: LengthQuantiles | undefined): string =>
  quantiles === undefined ? '-' : formatLengths([quantiles.p50, quantiles.p95, quantiles.p99]);

/** Both legs with their ±; legs that are both smaller than that could have any length. */
function legs({ out, back, epsilon }: RpcRoute): string {
  if (out === undefined || back === undefined || epsilon === undefined) return '-';
  if (epsilon > 0 && Math.abs(out.p50) <= epsilon && Math.abs(back.p50) <= epsilon) return `within ± ${formatNanos(epsilon)}`;
  return `${formatNanos(out.p50)} · ${formatNanos(back.p50)}${epsilon > 0 ? ` ± ${formatNanos(epsilon)}` : ''}`;
}

function oddities(route: RpcRoute): readonly string[] {
  const { withoutServer, withoutClient, retries, fanOut, async: outlived, unfinished, reversed } = route;
  const odd = [
    [withoutServer, 'without a server span'],
    [withoutClient, 'without a client span'],
    [retries, 'retries'],
    [fanOut, 'further servers of a call to several ranks'],
    [outlived, 'whose server outlived the client: no network time'],
    [unfinished, 'that never ended'],
    [reversed, 'drawn against causality, within ± of the clocks'],
  ] as const;
  const reported = odd.flatMap(([count, what]) => (count === 0 ? [] : [`${formatCount(count)} ${what}`]));
  return reported.length === 0 ? [] : [`  ${printable(`${route.method} ${placesOf(route)}`)}: ${reported.join(', ')}`];
}

function whyOf({ evicted, duplicates, excess, invalid }: RpcSummary['halves']): string {
  const why = [
    [evicted, 'too many waited at once'],
    [duplicates, 'recorded twice'],
    [excess, 'of calls with too many servers'],
    [invalid, 'without a valid time'],
  ] as const;
  return why.flatMap(([count, what]) => (count === 0 ? [] : [`${formatCount(count)} ${what}`])).join(', ');
}
