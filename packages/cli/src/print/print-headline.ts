// The report's first statement, by the same priority as the page's headline and `top`: dead or hung, then slow ranks, a regression, another cause, or
// nothing of these. `report`, `merge` and `run` make it from the same sinks, so they agree.

import { type Alert, printable, runStateOf, type ViewFinding } from '@ranktrace/protocol';
import { type Finding, hangsOf, OpenWorkSink, type TraceSink } from '@ranktrace/trace';
import { endedHanging } from '@ranktrace/trace/alert';
import { CollectiveParts, mayBeVerdict, type RunBlame, RunBlameSink } from '@ranktrace/trace/blame';
import { GpuBlameSink, GpuSink } from '@ranktrace/trace/gpu';
import { blameHeadline } from './print-blame.ts';
import type { RunReport } from './print-summary.ts';

interface Stated extends Pick<ViewFinding, 'kind' | 'severity'> {
  readonly text: string;
}

/** What a merge must be observed by for the statement and for the findings about slow steps. */
export class HeadlineSinks {
  readonly gpus: GpuSink;
  /** The first of `all`: further sinks may share it. */
  readonly parts = new CollectiveParts();
  readonly openWork: OpenWorkSink;
  readonly all: readonly TraceSink[];
  /** Those of the whole run, where `all` are of some of its steps: how it ended. */
  readonly ofRun: readonly TraceSink[];
  readonly #steps = new RunBlameSink({ parts: this.parts });
  readonly #devices: GpuBlameSink;

  constructor({ htaCompatible = false, isOfSteps = false }: { readonly htaCompatible?: boolean; readonly isOfSteps?: boolean } = {}) {
    this.gpus = new GpuSink({ htaCompatible });
    this.#devices = new GpuBlameSink(this.gpus, this.parts);
    this.openWork = isOfSteps ? new OpenWorkSink() : new OpenWorkSink(this.parts);
    this.ofRun = isOfSteps ? [this.openWork] : [];
    this.all = [this.parts, ...(isOfSteps ? [] : [this.openWork]), this.#steps, this.gpus, this.#devices];
  }

  /** After the merge's end. Where work runs on GPUs, hosts only launch it: their phases say little of what makes steps long. */
  get blame(): RunBlame {
    const ofDevices = this.#devices.blame;
    return ofDevices === undefined ? this.#steps.blame : this.#steps.addLongSteps(ofDevices, this.#devices.stepLengths);
  }

  /** Hangs at the run's end. */
  hangs({ summary, isLive = false }: Pick<RunReport, 'summary' | 'isLive'>): ReturnType<typeof hangsOf> {
    return hangsOf(this.openWork.summary, summary, isLive);
  }

  /** `blame`: this one's. `alerts`: the run's. */
  inShort(blame: RunBlame, report: Pick<RunReport, 'findings' | 'summary' | 'isLive'>, alerts: readonly Alert[] = []): string {
    const { last } = blame.steps;
    const lastHangs = alerts.filter((alert) => endedHanging(alert, last));
    return inShortLine(blame, report.findings, this.hangs(report), lastHangs);
  }
}

/** `in short: straggler: rank 2 in forward: 39.3 ms per step`; '' where the recording is too short to say. */
function inShortLine(
  blame: Pick<RunBlame, 'verdict' | 'findings' | 'cutAt' | 'steps'>,
  missing: readonly Finding[],
  hangs: ReturnType<typeof hangsOf>,
  lastHangs: readonly Alert[],
): string {
  const lost = missing.map(({ kind, text }): Stated => {
    return { kind, severity: hangs.areEndedByKill && kind === 'rank_lost' ? 'note' : 'alert', text: `${kind}: ${text}` };
  });
  const told = lastHangs.map(({ summary }): Stated => ({ kind: 'hang', severity: 'alert', text: `hang: ${summary}` }));
  const inside = hangs.findings.map(({ kind, severity, text }): Stated => ({ kind, severity, text: `${kind}: ${text}` }));
  const hanging = inside.length > 0 ? inside : told;
  const slow = blame.findings
    .filter(({ kind }) => kind !== 'inconclusive')
    .map((finding): Stated => {
      const canLead = (finding.kind === 'straggler' || finding.kind === 'cluster_wide') && mayBeVerdict(finding);
      const isVerdict = canLead || finding.kind === blame.verdict;
      return { kind: finding.kind, severity: isVerdict ? 'warning' : 'note', text: blameHeadline(finding, blame) };
    });
  const { state, findings } = runStateOf([...lost, ...hanging, ...slow]);
  const [first] = findings;
  if (first !== undefined) {
    const alike = findings.filter(({ kind }) => kind === first.kind).length - 1;
    const more = alike > 0 ? `, and ${alike} more like it` : '';
    return `in short: ${printable(first.text)}${more}${slow.includes(first) ? otherVerdict(first, blame) : ''}`;
  }
  const silent = blame.verdict === 'inconclusive' ? lost.find(({ kind }) => kind === 'rank_missing') : undefined;
  if (state === 'balanced' && silent !== undefined) return `in short: ${printable(silent.text)}`;
  if (state !== 'balanced' || blame.verdict !== 'balanced') return '';
  const long = blame.findings.find(({ kind, shareOfStep }) => kind === 'long_steps' && shareOfStep >= longShareMin);
  const but = long === undefined ? '' : `, but for ${printable(blameHeadline(long, blame))}`;
  return `in short: balanced, no rank is to blame${but}${lossText(missing)}`;
}

/** The losses that the statement does not cover. */
function lossText(missing: readonly Finding[]): string {
  const losses = missing.filter(({ isOfEvents }) => isOfEvents === true);
  const [first] = losses;
  if (first === undefined) return '';
  return `, as far as it was recorded: ${printable(first.text)}${losses.length > 1 ? `, and ${losses.length - 1} more like it` : ''}`;
}

/** Long steps are no verdict where they are few, or their cause is unknown; from this share of the time on, they are no small matter either. */
const longShareMin = 0.1;

/** A slow rank comes first even where something else accounts for more of the steps: then the line has both. */
function otherVerdict({ kind }: Stated, blame: Pick<RunBlame, 'verdict' | 'findings' | 'cutAt' | 'steps'>): string {
  const { verdict, findings } = blame;
  const finding = kind === verdict ? undefined : findings.find((of) => of.kind === verdict);
  return finding === undefined || verdict === 'inconclusive' ? '' : `; verdict: ${printable(blameHeadline(finding, blame))}`;
}
