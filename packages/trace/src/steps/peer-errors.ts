// Errors by which a rank ends because of its peers, as PyTorch's Gloo, NCCL and store word them. A rank with such an error waited for others, so it is not
// what ended the job: the rank that it waited for is, or the one that was gone.

/** `timeout`: peers did not come in time. `lost`: the connection to one ended. */
export type PeerError = 'timeout' | 'lost';

const timeout = new RegExp(
  [
    ...[/Timed out waiting \d+ ?ms for (?:send|recv|receive) operation/, /Application timeout caused pair closure/],
    ...[/collective operation timeout/, /ran for \d+ milliseconds before timing out/, /failed to pass monitoredBarrier/],
    ...[/Timed out after \d+ seconds waiting for clients/, /wait timeout after \d+ ?ms/, /Timed out initializing process group/],
  ]
    .map(({ source }) => source)
    .join('|'),
);

/** A program's own connections may break, too: without the library's name or place the text must be nothing else. */
const closed = /Connection (?:closed|reset) by peer|Broken pipe/;
const ofLibrary = /gloo|nccl|ProcessGroup|DistBackendError|TCPStore/i;
const alone = /^RuntimeError: Connection (?:closed|reset) by peer$/;
const lost = /ncclRemoteError|remote process exited or there was a network error|communicator was aborted|Connection was likely closed/;

/** The error's word about the rank's peers; undefined for an error of its own. */
export function peerErrorOf(error: string): PeerError | undefined {
  if (timeout.test(error)) return 'timeout';
  if (lost.test(error) || alone.test(error) || (closed.test(error) && ofLibrary.test(error))) return 'lost';
  return undefined;
}
