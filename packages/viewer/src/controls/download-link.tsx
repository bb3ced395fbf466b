// A link to a file that the page downloads: while it comes, bytes and a button to cancel are in its place.

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { DownloadProblem, download } from './download.ts';
import { formatBytes } from './format.ts';
import './download-link.css';

export interface DownloadLinkProps {
  readonly href: string;
  /** What comes, for a person: `.json`. */
  readonly what: string;
  readonly title?: string;
  readonly class?: string;
  readonly children: ComponentChildren;
}

/** A page shows bytes ten times a second at most. */
const shownMsMin = 100;

export function DownloadLink({ href, what, title, class: className, children }: DownloadLinkProps): JSX.Element {
  const [progress, setProgress] = useState<{ readonly bytes: number; readonly total: number | undefined } | undefined>(undefined);
  const [said, setSaid] = useState('');
  const stop = useRef<AbortController | undefined>(undefined);
  const link = useRef<HTMLAnchorElement>(null);
  const cancel = useRef<HTMLButtonElement>(null);
  const hasFocus = useRef(false);
  const isComing = progress !== undefined;
  // Link and button take each other's place: the focus stays there.
  useEffect(() => {
    if (hasFocus.current) (isComing ? cancel : link).current?.focus();
  }, [isComing]);
  const start = async (event: MouseEvent): Promise<void> => {
    // Into another tab or a place of one's own: the browser knows how.
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const stopping = new AbortController();
    stop.current = stopping;
    hasFocus.current = document.activeElement === link.current;
    setSaid('');
    setProgress({ bytes: 0, total: undefined });
    let shown = performance.now();
    try {
      const result = await download(href, stopping.signal, (bytes, total) => {
        if (bytes < (total ?? Number.POSITIVE_INFINITY) && performance.now() - shown < shownMsMin) return;
        shown = performance.now();
        setProgress({ bytes, total });
      });
      setSaid(result === 'saved' ? '' : `${what} is large: the browser downloads it`);
    } catch (error) {
      const problem = error instanceof DownloadProblem ? error.message : String(error);
      setSaid(stopping.signal.aborted ? 'cancelled' : `Cannot download ${what}: ${problem}`);
    } finally {
      hasFocus.current = cancel.current !== null && document.activeElement === cancel.current;
      setProgress(undefined);
    }
  };
  return (
    <span class="download">
      {!isComing ? (
        <a ref={link} href={href} download class={className} title={title} onClick={(event) => void start(event)}>
          {children}
        </a>
      ) : (
        <>
          <progress
            aria-label={`Download of ${what}`}
            {...(progress.total === undefined ? {} : { value: progress.bytes, max: progress.total })}
          />
          <span class="download-bytes">{progressText(what, progress)}</span>
          <button ref={cancel} type="button" class="is-link" onClick={() => stop.current?.abort()}>
            Cancel<span class="only-aloud"> the download of {what}</span>
          </button>
        </>
      )}
      <span role="status">{said}</span>
    </span>
  );
}

function progressText(what: string, { bytes, total }: { readonly bytes: number; readonly total: number | undefined }): string {
  if (bytes === 0) return `preparing ${what} …`;
  return total === undefined ? formatBytes(bytes) : `${formatBytes(bytes)} of ${formatBytes(total)}`;
}
