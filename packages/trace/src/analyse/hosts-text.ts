// Hosts in a sentence: by their usual names, each once, and no more than fit on a line.

interface OnHost {
  readonly rank: number;
  readonly host: string;
  readonly hostName: string;
}

const hostsShown = 8;

/**
 * `hosts` as text, in their order. A host without a unique name is represented by its first rank.
 *
 * @example hostsText(conflict.hosts, header.processes) // 'node-3, node-7 (rank 24) and 5 more'
 */
export function hostsText(hosts: readonly string[], processes: readonly OnHost[]): string {
  const known = new Map<string, OnHost>();
  const ofName = new Map<string, Set<string>>();
  for (const process of processes) {
    const first = known.get(process.host);
    if (first === undefined || process.rank < first.rank) known.set(process.host, process);
    const sharing = ofName.get(process.hostName) ?? new Set();
    ofName.set(process.hostName, sharing.add(process.host));
  }
  const nameOf = (host: string): string => {
    const process = known.get(host);
    if (process === undefined) return host;
    const { hostName, rank } = process;
    // torch's own files do not name their host.
    if (hostName === '' || host.startsWith('unknown ')) return `rank ${rank}`;
    return (ofName.get(hostName)?.size ?? 0) > 1 ? `${hostName} (rank ${rank})` : hostName;
  };
  const names = [...new Set(hosts)].map(nameOf);
  const more = names.length > hostsShown ? ` and ${names.length - hostsShown} more` : '';
  return `${names.slice(0, hostsShown).join(', ')}${more}`;
}
