// How each fault of the matrix breaks a stage, and how it heals.

import { type ChildProcess, execFileSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Fault } from './matrix.ts';
import type { RelayState } from './relay.ts';
import { monotonicMs, type Stage, type Window } from './stage.ts';

type Signal = (name: 'SIGSTOP' | 'SIGCONT') => void;

/** Lets a process run one tenth of the time. */
const slowness = { stoppedMs: 90, runningMs: 10 } as const;
const slowNetwork: RelayState = { delayMs: 250 };
const narrowNetwork: RelayState = { bytesPerSecondMax: 20_000 };

/** Waits until its start, breaks, lasts, heals. */
export async function play(stage: Stage, fault: Fault): Promise<void> {
  await setTimeout(fault.afterMs);
  const window: Window = { fault, from: monotonicMs(), until: undefined };
  stage.windows.push(window);
  await breakAndHeal(stage, fault);
  window.until = monotonicMs();
}

async function breakAndHeal(stage: Stage, fault: Fault): Promise<void> {
  const { target, how, lastsMs, rank } = fault;
  const lasting = (): Promise<void> => setTimeout(lastsMs);
  switch (`${target} ${how}` as const) {
    case 'rank killed':
      return killRank(stage, fault);
    case 'rank full':
      return fault.part === 'ring' ? burst(stage, rank) : withoutDescriptors(stage.life(rank).program.child, lastsMs);
    case 'rank frozen':
    case 'rank slow':
      return hold(fault, (name) => stage.life(rank).program.child.kill(name));
    case 'aggregator frozen':
    case 'aggregator slow':
      return hold(fault, (name) => stage.service.child.kill(name));
    case 'broker frozen':
    case 'broker slow':
      return hold(fault, (name) => stage.broker.signal(name));
    case 'broker killed':
      await stage.broker.kill9();
      await lasting();
      return stage.broker.restart();
    case 'broker full': {
      const makeRoom = stage.fill('broker');
      await lasting();
      makeRoom();
      // JetStream that could not write stays off until its server restarts.
      return stage.broker.restart();
    }
    case 'aggregator killed':
      stage.service.child.kill('SIGKILL');
      await stage.service.ended;
      await lasting();
      return stage.startService();
    case 'aggregator full':
      return withoutDescriptors(stage.service.child, lastsMs);
    case 'disk full': {
      const makeRoom = stage.fill(fault.part === 'spool' ? 'spool' : 'store');
      if (fault.staysToTheEnd) return void stage.healers.push(makeRoom);
      await lasting();
      return makeRoom();
    }
    case 'network frozen':
      return during(stage, fault, { frozen: true });
    case 'network cut':
      return during(stage, fault, { cut: true });
    case 'network slow':
      return during(stage, fault, slowNetwork);
    case 'network full':
      return during(stage, fault, narrowNetwork);
    case 'clock frozen':
      return setClock(stage, fault, { shift: 0, rate: 0 });
    case 'clock slow':
      return setClock(stage, fault, { shift: 0, rate: 0.5 });
    case 'clock set back':
      await setClock(stage, fault, { shift: -fault.backMs, rate: 1 });
      return fault.part === 'ranks' && fault.restarts ? killRank(stage, fault) : undefined;
    default:
      throw new Error(`Nothing is known about ${target} × ${how}`);
  }
}

async function killRank(stage: Stage, { rank, restarts, lastsMs }: Fault): Promise<void> {
  const life = stage.life(rank);
  life.killed = true;
  life.program.child.kill('SIGKILL');
  await life.program.ended;
  await setTimeout(lastsMs);
  if (restarts) await stage.stepsOf(stage.startRank(rank), 10);
}

/** More events at once than the ring holds. */
async function burst(stage: Stage, rank: number): Promise<void> {
  const life = stage.life(rank);
  writeFileSync(join(stage.folder, `burst-${rank}`), '');
  await stage.stepsOf(life, 3);
}

/** Limits a process to the descriptors that it has. */
async function withoutDescriptors({ pid }: ChildProcess, lastsMs: number): Promise<void> {
  const limit = (files: number): unknown => execFileSync('prlimit', ['--pid', `${pid}`, `--nofile=${files}:`]);
  limit(readdirSync(`/proc/${pid}/fd`).length);
  await setTimeout(lastsMs);
  limit(1024);
}

/** Stops a process for all of the time, or most of it. */
async function hold({ how, lastsMs }: Fault, signal: Signal): Promise<void> {
  const until = performance.now() + lastsMs;
  const { stoppedMs, runningMs } = how === 'frozen' ? { stoppedMs: lastsMs, runningMs: 0 } : slowness;
  do {
    signal('SIGSTOP');
    await setTimeout(stoppedMs);
    signal('SIGCONT');
    await setTimeout(runningMs);
  } while (performance.now() < until);
}

async function during(stage: Stage, { part, lastsMs }: Fault, state: RelayState): Promise<void> {
  const { ranks, aggregator } = stage.relays;
  const relay = part === 'aggregator' ? (aggregator ?? ranks) : ranks;
  relay.state = state;
  await setTimeout(lastsMs);
  relay.state = {};
}

/** A clock that was set back stays so while the job runs. One that stood still or ran slow continues from its reading. */
async function setClock(stage: Stage, { lastsMs }: Fault, { shift, rate }: { shift: number; rate: number }): Promise<void> {
  const set = (at: number, shift: number, rate: number): void => writeFileSync(stage.clockFile, JSON.stringify({ at, shift, rate }));
  const at = Date.now();
  set(at, shift, rate);
  await setTimeout(lastsMs);
  const until = Date.now();
  set(until, shift + (rate - 1) * (until - at), 1);
}
