// A check for people and pipelines: text in a log, Markdown in a job's summary or a pull request, JUnit in a test report, JSON in a script. Names
// come from traces: in Markdown and XML each is escaped where it is inserted.

import { printable, printableJson } from '@ranktrace/protocol';
import { percentText } from '@ranktrace/trace';
import type { BlameChange } from '@ranktrace/trace/blame';
import { decidingText, longLine, provableLine, verdictLine, verdictNames } from '@ranktrace/trace/compare';
import { addedBy, type SeriesLevel } from '@ranktrace/trace/detect';
import type { CheckFormat } from '../options/option-choices.ts';
import { formatCount, formatNanos, formatTable, nameInLine } from '../terminal/format.ts';
import { type CheckResult, kernelsOf, phasesOf, type TimeChange } from './check-result.ts';
import type { RecordedSteps } from './recorded-steps.ts';

const phasesShown = 12;
const kernelsShown = 6;
const kernelChars = 60;

/** `result` in one of the formats, with a final line end. */
export function formatCheck(result: CheckResult, format: CheckFormat): string {
  switch (format) {
    case 'markdown':
      return asMarkdown(result);
    case 'junit':
      return asJUnit(result);
    case 'json':
      return `${printableJson(asData(result))}\n`;
    default:
      return `${asText(result)}\n`;
  }
}

const verdictLines = (result: CheckResult): string[] =>
  [...endLines(result), verdictLine(result, result.whose), longLine(result), provableLine(result)].filter((line) => line !== undefined);

/** The first thing to say of a run that did not end well: what is compared are its steps before that. */
const endLines = ({ baseline, checked }: CheckResult): string[] =>
  [baseline, checked].flatMap(({ badEnds }, at) => {
    return badEnds.map(
      (text) => `the ${at === 0 ? 'baseline' : 'checked run'} did not end well, and its steps are those before that: ${text}`,
    );
  });

const levelHead = ['', 'run', 'ranks', 'steps', 'compared', 'step', 'noise'];
const changeHead = (what: string): string[] => [`${what}, mean per step`, 'baseline', 'checked', 'difference'];
const rightOf = (head: readonly string[], left: number): boolean[] => head.map((_, column) => column >= left);

function levelRows({ baseline, checked }: CheckResult): string[][] {
  const row = (name: string, { run, ranks, steps, level }: RecordedSteps): string[] => [
    ...[name, run, String(ranks), formatCount(steps), formatCount(level.steps), formatNanos(level.level), percentText(level.noise)],
  ];
  return [row('baseline', baseline), row('checked', checked)];
}

const difference = (ns: number): string => `${ns < 0 ? '−' : '+'}${formatNanos(Math.abs(ns))}`;
const changeRow = ({ name, before, after }: TimeChange): string[] => [
  ...[name, formatNanos(before), formatNanos(after), difference(after - before)],
];

/** Each with its head; only those with rows. */
function changeTables(result: CheckResult): readonly (readonly string[][])[] {
  const phases = phasesOf(result).slice(0, phasesShown).map(changeRow);
  const kernels = kernelsOf(result)
    .slice(0, kernelsShown)
    .map((change) => changeRow({ ...change, name: nameInLine(change.name, kernelChars) }));
  return [
    [changeHead(`phase${result.stepsTakenBy === 'devices' ? ' of the host' : ''}`), ...phases],
    [changeHead('GPU kernel (a collective with its waits)'), ...kernels],
  ].filter(({ length }) => length > 1);
}

function asText(result: CheckResult): string {
  const { cause } = result;
  const blocks = [formatTable([levelHead, ...levelRows(result)], rightOf(levelHead, 2)), verdictLines(result).join('\n')];
  if (cause !== undefined) blocks.push([`cause: ${cause.kind}`, ...cause.evidence.map((text) => `  ${printable(text)}`)].join('\n'));
  for (const rows of changeTables(result)) blocks.push(formatTable(rows, rightOf(rows[0] ?? [], 1)));
  return blocks.join('\n\n');
}

function asMarkdown(result: CheckResult): string {
  const { verdict, cause } = result;
  const table = (head: readonly string[], left: number, rows: readonly (readonly string[])[]): string => {
    const line = (cells: readonly string[]): string => `| ${cells.map(markdownText).join(' | ')} |`;
    return [
      line(head),
      `|${rightOf(head, left)
        .map((isRight) => (isRight ? '---:|' : '---|'))
        .join('')}`,
      ...rows.map(line),
    ].join('\n');
  };
  const blocks = [
    `### Step time ${verdictNames[verdict]}: ${decidingText(result)}`,
    verdictLines(result)
      .map((line) => `${markdownText(line)}.`)
      .join('\n'),
    table(levelHead, 2, levelRows(result)),
  ];
  if (cause !== undefined) blocks.push([`Cause: ${cause.kind}`, '', ...cause.evidence.map((text) => `- ${markdownText(text)}`)].join('\n'));
  for (const [head = [], ...rows] of changeTables(result)) blocks.push(table(head, 1, rows));
  return `${blocks.join('\n\n')}\n`;
}

/** Escapes text for Markdown, also in a table. */
const markdownText = (text: string): string => printable(text).replaceAll(/[\\`*_{}[\]<>#|~&@!]/g, (mark) => `\\${mark}`);

/** One suite with one case, whose time is the step's: test reports then plot it over builds. */
function asJUnit(result: CheckResult): string {
  const { verdict, baseline, checked } = result;
  const failures = verdict === 'slower' ? 1 : 0;
  const seconds = (checked.level.level / 1e9).toFixed(9);
  const about = xmlText(asText(result));
  const counts = `tests="1" failures="${failures}" errors="0" skipped="0" time="${seconds}"`;
  const said =
    failures > 0
      ? `<failure type="slower" message="${xmlText(verdictLine(result, result.whose))}">${about}</failure>`
      : `<system-out>${about}</system-out>`;
  return `\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="ranktrace check" ${counts}>
  <testsuite name="ranktrace check" ${counts}>
    <testcase classname="ranktrace.check" name="${xmlText(`step time of ${checked.run} against ${baseline.run}`)}" time="${seconds}">
      ${said}
    </testcase>
  </testsuite>
</testsuites>
`;
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&apos;' };

/** Text for content and attributes: escapes markup; characters that XML 1.0 cannot express become U+FFFD. */
const xmlText = (text: string): string =>
  text
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
    .replaceAll(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Surrogate}/gu, '\ufffd')
    .replaceAll(/[&<>"']/g, (mark) => entities[mark] as string);

function asData(result: CheckResult): unknown {
  const { verdict, failOn, stepsTakenBy, baseline, checked, comparison, basis, cause } = result;
  const { change, confidence, isCertain, provable, ofAll } = comparison;
  const side = ({
    run,
    ranks,
    steps,
    level: { level, noise, steps: comparedSteps, warmUp: warmUpSteps, long },
    badEnds,
  }: RecordedSteps): unknown => {
    const longSteps = long && { count: long.count, added: addedBy(long) };
    return { run, ranks, steps, comparedSteps, warmUpSteps, stepNs: level, noise, longSteps, ...(badEnds.length > 0 && { badEnds }) };
  };
  const kernels = kernelsOf(result);
  return {
    ...{ verdict, failOn, stepsTakenBy, basis, change, confidence, isCertain, provable, allSteps: ofAll },
    baseline: side(baseline),
    checked: side(checked),
    ...(cause === undefined ? {} : { cause: causeData(cause) }),
    phases: phasesOf(result).map(({ name, before, after }) => ({ phase: name, beforeNs: before, afterNs: after })),
    ...(kernels.length > 0 && { kernels: kernels.map(({ name, before, after }) => ({ kernel: name, beforeNs: before, afterNs: after })) }),
  };
}

function causeData({ change, before, now, ...about }: BlameChange): unknown {
  return { ...about, changeNs: change, beforeNs: before, afterNs: now };
}

/** The line that `--save` prints about the file it wrote. */
export const savedLine = (path: string, bytes: number, run: string, { steps, level }: SeriesLevel): string =>
  `saved: ${printable(path)} (${bytes} bytes): run ${printable(run)}, ${formatCount(steps)} steps of ${formatNanos(level)}`;
