// `npm run chaos -- --seed N`: rounds of a fault matrix. A line for each round, a table at the end; exit code 1 where something disagrees.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Cell, cellName, type Fault, hows, matrix, planRound, targets } from './matrix.ts';
import { playRound, type RoundResult } from './round.ts';
import { thisMachine } from './stage.ts';

const help = `npm run chaos -- [--seed N] [--rounds R | --round K] [--only rank,broker,…] [--how killed,…] [--jobs J] [--json]

Breaks one part or two of a real job in each round (nats-server, ranktrace serve, 2 to 4 ranks), heals it, ends the job, and checks that what
was recorded is what is stored and what is counted as lost, span by span. 200 rounds from seed 1 without options.

  --seed N     another N gives other rounds; the same N the same ones
  --rounds R   how many
  --round K    this one alone, as a failed round names it
  --only T,…   of ${targets.join(', ')}
  --how H,…    of ${hows.join(', ')}
  --jobs J     rounds at a time (1)
  --json       a line of JSON for each round

Exit code 1 when a round failed: its line names the folder with its plan, logs and files. 2 for options that do not exist, 130 after Ctrl-C.
`;

/** Runs the program with these arguments; gives its exit code. */
export async function main(args: readonly string[]): Promise<number> {
  const options = optionsOf(args);
  if (typeof options === 'string') {
    process.stderr.write(options);
    return options === help ? 0 : 2;
  }
  const { seed, rounds, jobs, json } = options;
  const { played, skipped } = matrix(thisMachine());
  const isChosen = ({ target, how }: Cell) => options.only.includes(target) && options.how.includes(how);
  const cells = played.filter(isChosen);
  for (const cell of skipped.filter(isChosen)) {
    // Where nothing is left to play, each reason is of use.
    if (cells.length === 0 || cell.why.startsWith('NOT RUN')) console.error(`chaos: ${cellName(cell)}: ${cell.why}`);
  }
  if (cells.length === 0) {
    console.error('chaos: none of these cells is played');
    return 2;
  }
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-chaos-'));
  const results: RoundResult[] = [];
  const waiting = [...rounds];
  let isInterrupted = false;
  const interrupt = (): void => {
    isInterrupted = true;
    waiting.length = 0;
    console.error('chaos: ends with the rounds that are running (Ctrl-C again to end at once)');
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, interrupt);
  const worker = async (): Promise<void> => {
    for (let round = waiting.shift(); round !== undefined; round = waiting.shift()) {
      const result = await playRound(planRound(seed, round, cells), folder);
      // A terminal's Ctrl-C ends the parts of a round, too, so such a round proves nothing.
      if (isInterrupted && result.folder !== undefined) continue;
      results.push(result);
      console.log(json ? JSON.stringify(result) : roundLine(result, results.length, rounds.length));
      for (const line of json ? [] : failureLines(result, options.filters)) console.log(line);
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  const failed = results.filter(({ folder }) => folder !== undefined).length;
  if (!json) console.log(`\n${table(results)}\n\n${results.length - failed} passed, ${failed} failed`);
  if (failed === 0) rmSync(folder, { recursive: true });
  return failed > 0 ? 1 : isInterrupted ? 130 : 0;
}

interface Options {
  readonly seed: number;
  readonly rounds: readonly number[];
  readonly only: readonly string[];
  readonly how: readonly string[];
  readonly jobs: number;
  readonly json: boolean;
  /** Further options that are needed to repeat a failed round. */
  readonly filters: string;
}

/** The options, or the text to print instead. */
function optionsOf(args: readonly string[]): Options | string {
  const text = { type: 'string' } as const;
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        seed: text,
        rounds: text,
        round: text,
        only: text,
        how: text,
        jobs: text,
        json: { type: 'boolean' },
        help: { type: 'boolean' },
      },
    });
    if (values.help === true) return help;
    const whole = (name: 'seed' | 'rounds' | 'round' | 'jobs', fallback: number): number => {
      const value = values[name] ?? `${fallback}`;
      if (!/^\d{1,6}$/.test(value)) throw new Error(`--${name} must be a whole number, got "${value}"`);
      return Number(value);
    };
    const some = (name: 'only' | 'how', of: readonly string[]): readonly string[] => {
      const given = values[name]?.split(',') ?? of;
      const unknown = given.find((one) => !of.includes(one));
      if (unknown !== undefined) throw new Error(`--${name} must be of ${of.join(', ')}, got "${unknown}"`);
      return given;
    };
    const filters = (['only', 'how'] as const)
      .flatMap((name) => (values[name] === undefined ? [] : [` --${name} '${values[name]}'`]))
      .join('');
    const rounds = values.round === undefined ? Array.from({ length: whole('rounds', 200) }, (_, round) => round) : [whole('round', 0)];
    return {
      ...{ seed: whole('seed', 1), rounds, only: some('only', targets), how: some('how', hows) },
      ...{ jobs: Math.max(1, whole('jobs', 1)), json: values.json === true, filters },
    };
  } catch (error) {
    return `chaos: ${(error as Error).message}\n`;
  }
}

const faultText = (fault: Fault): string => {
  const named = fault.how === 'full' || fault.target === 'network' || fault.target === 'clock';
  const part = `${fault.target === 'rank' ? ` ${fault.rank}` : ''}${named && !['broker', 'aggregator'].includes(fault.target) ? ` (${fault.part})` : ''}`;
  const isKilled =
    fault.restarts && (fault.target === 'rank' ? fault.how === 'killed' : fault.how === 'set back' && fault.part === 'ranks');
  const restarts = isKilled ? (fault.target === 'rank' ? ' and started again' : `, rank ${fault.rank} killed and started again`) : '';
  const back = fault.how === 'set back' ? ` by ${fault.backMs} ms` : '';
  return `${fault.target}${part} ${fault.how}${back}${restarts} ${fault.staysToTheEnd ? 'to the end' : `for ${fault.lastsMs} ms`}`;
};

function roundLine({ plan, recorded, stored, lost, tail, seconds, folder }: RoundResult, done: number, all: number): string {
  const verdict = folder === undefined ? 'ok  ' : 'FAIL';
  const counts = `${recorded} recorded, ${stored} stored, ${lost} counted lost, ${tail} after the last batch of a rank that was killed or cut off`;
  const faults = plan.faults.map(faultText).join('; ');
  return `${verdict} ${done}/${all} round ${plan.round} (${plan.way}, ${plan.ranks} ranks): ${faults}: ${counts} (${seconds.toFixed(1)} s)`;
}

function failureLines({ plan, disagreements, folder }: RoundResult, filters: string): string[] {
  if (folder === undefined) return [];
  return [
    ...disagreements.map((line) => `     ${line.replaceAll('\n', '\n     ')}`),
    `     again: npm run chaos -- --seed ${plan.seed} --round ${plan.round}${filters}      kept: ${folder}`,
  ];
}

/** Fault × how, by the first fault of each round. */
function table(results: readonly RoundResult[]): string {
  const head = ['fault', 'rounds', 'failed', 'recorded', 'stored', 'lost', 'tail', 'tail ms', 'step ms', 'health ms'];
  const most = (of: readonly RoundResult[], value: (result: RoundResult) => number): string => Math.max(0, ...of.map(value)).toFixed(0);
  const row = (name: string, of: readonly RoundResult[]): string[] => {
    const sum = (value: (result: RoundResult) => number): string => `${of.reduce((total, result) => total + value(result), 0)}`;
    return [
      ...[name, `${of.length}`, sum(({ folder }) => (folder === undefined ? 0 : 1))],
      ...[sum(({ recorded }) => recorded), sum(({ stored }) => stored), sum(({ lost }) => lost), sum(({ tail }) => tail)],
      ...[
        most(of, ({ tailMs }) => tailMs),
        most(of, ({ longestStepPauseMs }) => longestStepPauseMs),
        most(of, ({ longestHealthMs }) => longestHealthMs),
      ],
    ];
  };
  const nameOf = ({ plan }: RoundResult): string => cellName(plan.faults[0] as Cell);
  const names = targets
    .flatMap((target) => hows.map((how) => cellName({ target, how })))
    .filter((name) => results.some((result) => nameOf(result) === name));
  const rows = [
    head,
    ...names.map((name) =>
      row(
        name,
        results.filter((result) => nameOf(result) === name),
      ),
    ),
    row('all', results),
  ];
  const widths = head.map((_, column) => Math.max(...rows.map((cells) => (cells[column] ?? '').length)));
  return rows
    .map((cells) =>
      cells.map((cell, column) => (column === 0 ? cell.padEnd(widths[0] as number) : cell.padStart(widths[column] as number))).join('  '),
    )
    .join('\n');
}
