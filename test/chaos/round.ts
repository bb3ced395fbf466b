// One round: a job at work, the faults of its plan, their healing, the regular end of all parts, and the account.

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { streamName } from '@ranktrace/protocol';
import { type ConsumerInfo, connect } from 'nats';
import { type Account, balance } from './account.ts';
import { play } from './faults.ts';
import type { Plan } from './matrix.ts';
import { HealthWatch, longestStepPause, pauseMsMax } from './pauses.ts';
import { patienceMs, Stage, type StatusRank, wasCutOff } from './stage.ts';

export interface RoundResult extends Account {
  readonly plan: Plan;
  readonly seconds: number;
  readonly longestStepPauseMs: number;
  readonly longestHealthMs: number;
  /** Its folder with all logs, if the round failed. */
  readonly folder: string | undefined;
}

const settleMs = 30_000;

const nothing: Account = { recorded: 0, stored: 0, lost: 0, tail: 0, tailMs: 0, disagreements: [] };

/**
 * Plays a round in a folder of its own below `parent`, which stays if something disagrees. Never throws. `tamper` runs before the account: a test
 * of the judge falsifies a file there.
 */
export async function playRound(plan: Plan, parent: string, tamper: (stage: Stage) => void = () => {}): Promise<RoundResult> {
  const folder = join(parent, `seed-${plan.seed}-round-${plan.round}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'plan.json'), JSON.stringify(plan, undefined, 2));
  const started = performance.now();
  let account = nothing;
  let pauses = { longestStepPauseMs: 0, longestHealthMs: 0 };
  const wrong: string[] = [];
  try {
    await using stage = await Stage.open(plan, folder);
    try {
      const health = new HealthWatch(stage);
      try {
        await Promise.all(plan.faults.map((fault) => play(stage, fault)));
        await goOn(stage);
        await endRanks(stage, wrong);
        for (const heal of stage.healers) heal();
      } finally {
        await health.stop();
      }
      if (plan.way === 'nats') await allTaken(stage);
      const status = await settledStatus(stage);
      await endService(stage, wrong);
      tamper(stage);
      account = await balance(stage, status);
      pauses = {
        longestStepPauseMs: Math.max(...stage.lives.map((life) => longestStepPause(stage, life))),
        longestHealthMs: health.longestMs,
      };
      for (const [what, ms, most] of [
        ['a step', pauses.longestStepPauseMs, pauseMsMax.step],
        ['an answer to /healthz', pauses.longestHealthMs, pauseMsMax.health],
      ] as const) {
        if (ms - health.machineMs > most) wrong.push(`${what} took ${ms.toFixed(0)} ms, stated are ${most} ms`);
      }
      wrong.push(...uncaught(stage));
    } catch (error) {
      // Full disks end with the stage.
      wrong.push(`the round could not be played: ${(error as Error).stack}`);
    }
    if (wrong.length + account.disagreements.length > 0) stage.keepDisks();
  } catch (error) {
    wrong.push(`the round could not be played: ${(error as Error).stack}`);
  }
  const disagreements = [...wrong, ...account.disagreements];
  if (disagreements.length === 0) rmSync(folder, { recursive: true });
  else writeFileSync(join(folder, 'disagreements.txt'), `${disagreements.join('\n')}\n`);
  const seconds = (performance.now() - started) / 1000;
  return { ...account, ...pauses, plan, seconds, disagreements, folder: disagreements.length === 0 ? undefined : folder };
}

/** Resolves when all has healed: every rank that was not killed makes more steps. */
async function goOn(stage: Stage): Promise<void> {
  await Promise.all(stage.lives.filter(({ killed }) => !killed).map((life) => stage.stepsOf(life, 20)));
}

async function endRanks(stage: Stage, wrong: string[]): Promise<void> {
  writeFileSync(join(stage.folder, 'end'), '');
  for (const { rank, program, killed } of stage.lives) {
    const result = await within(program.ended, `rank ${rank} to end`);
    if (!killed && result.code !== 0) wrong.push(`rank ${rank} ended with ${result.code ?? result.signal}`);
  }
}

/** Resolves when the aggregator has read and acknowledged all batches of the broker. */
async function allTaken(stage: Stage): Promise<void> {
  const connection = await connect({ servers: stage.broker.url, timeout: patienceMs });
  try {
    // A server that was just restarted on a busy machine takes more than the usual 5 s to answer.
    const manager = await connection.jetstreamManager({ timeout: patienceMs });
    const deadline = performance.now() + patienceMs;
    for (;;) {
      // Servers list a consumer that is being made or deleted as null.
      const consumers: readonly (ConsumerInfo | null)[] = await manager.consumers.list(streamName).next();
      const left = consumers.reduce((sum, one) => sum + (one === null ? 1 : one.num_pending + one.num_ack_pending), 0);
      if (consumers.length > 0 && left === 0) return;
      if (performance.now() > deadline) throw new Error(`the aggregator left ${left} batches in the stream for ${patienceMs} ms`);
      await setTimeout(50);
    }
  } finally {
    await connection.close();
  }
}

/**
 * `/status` once it is complete: a restarted service brings its live state up to its store in slices. After `settleMs` it counts
 * as it is, and the judge names the errors.
 */
async function settledStatus(stage: Stage): Promise<readonly StatusRank[]> {
  const endedWell = stage.lives.filter(
    (life) => stage.life(life.rank) === life && !life.killed && !wasCutOff(life, stage.plan) && !life.program.output().includes('stays in'),
  );
  const deadline = performance.now() + settleMs;
  for (let before = ''; ; await setTimeout(300)) {
    const status = await stage.status();
    const isKnown = endedWell.every(({ rank }) => status.some((one) => one.rank === rank && one.ended));
    const now = JSON.stringify(status.map(({ rank, batches }) => [rank, batches]));
    if ((isKnown && now === before) || performance.now() > deadline) return status;
    before = now;
  }
}

async function endService(stage: Stage, wrong: string[]): Promise<void> {
  stage.service.child.kill('SIGINT');
  const { code, signal } = await within(stage.service.ended, 'the service to end');
  if (code !== 0) wrong.push(`the service ended with ${code ?? signal}`);
}

async function within<T>(promise: Promise<T>, what: string): Promise<T> {
  const late = new AbortController();
  try {
    return await Promise.race([
      promise,
      setTimeout(patienceMs, undefined, { signal: late.signal }).then(() => {
        throw new Error(`waited ${patienceMs} ms for ${what}`);
      }),
    ]);
  } finally {
    late.abort();
  }
}

/** Unexpected errors: a stack, a warning of Node's, a panic of the broker's. */
function uncaught(stage: Stage): string[] {
  const unexpected = /^\s+at .+:\d+(:\d+)?\)?$|^node:internal|Unhandled|Uncaught|^\(node:\d+\)|^(panic|fatal error):/m;
  const outputs: [string, string][] = [
    ...stage.lives.map(({ rank, program }): [string, string] => [`rank ${rank}`, program.output()]),
    ...stage.services.map((service): [string, string] => ['the service', service.output()]),
    ...(stage.plan.way === 'nats' ? [['nats-server', stage.broker.output()] as [string, string]] : []),
  ];
  return outputs.flatMap(([who, text]) => {
    const found = unexpected.exec(text);
    return found === null ? [] : [`${who} printed what nobody caught: ${text.slice(Math.max(0, found.index - 200), found.index + 300)}`];
  });
}
