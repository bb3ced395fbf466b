// The findings of the run, the worst first: each links to its place on the timeline.

import type { Overview, ViewFinding } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { DownloadLink } from '../controls/download-link.tsx';
import { formatBytes, formatCount, formatDuration, formatMany } from '../controls/format.ts';
import './findings-list.css';

export interface FindingsListProps {
  readonly findings: readonly ViewFinding[];
  /** Whether findings cover everything in the run so far. */
  readonly analysed: boolean;
  /** ns of the run from which the findings count; null: the whole run. */
  readonly since: number | null;
  /** Undefined where there is no timeline to go to. */
  readonly onPick: ((finding: ViewFinding) => void) | undefined;
  /** Shows all of them at once: where nobody can click, as in print. */
  readonly all?: boolean;
  /** The run, and the traces of captures beside it, which can be downloaded. */
  readonly run: string;
  readonly captures: NonNullable<Overview['captures']>;
}

const severities = ['alert', 'warning', 'note'] as const;
const signs = { alert: '✖', warning: '▲', note: '●' } as const;
const spoken = { alert: 'Alert', warning: 'Warning', note: 'Note' } as const;
const shownFirst = 5;

export function FindingsList({ findings, analysed, since, onPick, all = false, run, captures }: FindingsListProps): JSX.Element {
  const [showsAll, setShowsAll] = useState(all);
  const sorted = severities.flatMap((severity) => findings.filter((finding) => finding.severity === severity));
  const shown = showsAll ? sorted : sorted.slice(0, shownFirst);
  return (
    <div class="findings">
      {!analysed && <p class="muted">{lookingText(findings.length, since)}</p>}
      {analysed && findings.length === 0 && <p class="findings-none">No findings, and nothing is missing.</p>}
      <ul>
        {shown.map((finding, at) => (
          <li key={`${finding.kind} ${finding.ranks.join()} ${finding.from ?? ''} ${at}`}>
            <Finding finding={finding} onPick={onPick} />
            {captures.some(({ name }) => name === finding.capture) && (
              <CaptureLink run={run} name={finding.capture ?? ''} text="Download the trace of its steps" />
            )}
          </li>
        ))}
      </ul>
      {sorted.length > shownFirst && (
        <button type="button" class="is-link" aria-expanded={showsAll} onClick={() => setShowsAll(!showsAll)}>
          {showsAll ? 'Show fewer' : `Show all ${formatCount(sorted.length)}`}
        </button>
      )}
      {captures.length > 0 && (
        <details class="findings-captures">
          <summary>{formatMany(captures.length, 'capture')}</summary>
          <ul>
            {captures.toReversed().map(({ name, bytes }) => (
              <li key={name}>
                <CaptureLink run={run} name={name} text={name} /> <span class="muted">{formatBytes(bytes)}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

const CaptureLink = ({ run, name, text }: { readonly run: string; readonly name: string; readonly text: string }): JSX.Element => (
  <DownloadLink class="finding-capture" href={`/v1/captures/${encodeURIComponent(run)}/${encodeURIComponent(name)}`} what={name}>
    {text}
  </DownloadLink>
);

function lookingText(found: number, since: number | null): string {
  if (since !== null) return `Of what came after ${formatDuration(since)} of the run; of all of it once it has ended.`;
  return found === 0 ? 'Looking for causes …' : 'Still looking: more may be found.';
}

function Finding({ finding, onPick }: { finding: ViewFinding; onPick: FindingsListProps['onPick'] }): JSX.Element {
  const { severity, text, causeText } = finding;
  const content = (
    <>
      <span class="finding-sign" aria-hidden="true">
        {signs[severity]}
      </span>
      <span class="only-aloud">{spoken[severity]}: </span>
      <span class="finding-text">
        {text}
        {causeText !== undefined && <span class="finding-cause"> Cause: {causeText}</span>}
      </span>
    </>
  );
  const leadsSomewhere = finding.ranks.length > 0 || finding.from !== undefined;
  if (!leadsSomewhere || onPick === undefined) return <div class={`finding is-${severity}`}>{content}</div>;
  return (
    <button type="button" class={`finding is-${severity}`} title="Show in the timeline" onClick={() => onPick(finding)}>
      {content}
    </button>
  );
}
