// A simulated job with pipeline and data parallelism, in the columns of NDTimeline (ndtimeline-recording.ts), and the true cost of its fault.
//
//   stage 0   F0 F1 F2 F3 · · · B0 F4 B1 F5 …      one forward, one backward: a stage computes a microbatch forward once the stage before has
//   stage 1      F0 F1 F2 · · B0 F3 B1 F4 …        sent it, backward once the stage behind has
//   stage 2         F0 F1 · B0 F2 B1 F3 …
//   stage 3            F0 B0 F1 B1 F2 …            then gradients are reduced among the workers of a stage, and all workers agree on their norm
//
// As in the recordings, after the pipeline the last stage's workers continue together, and then those of dp 0. Times are whole µs.

import { Random } from '../simulate/random.ts';

export interface PipelineJobOptions {
  readonly seed: number;
  /** Default 4. */
  readonly stages?: number;
  /** Default 4. */
  readonly replicas?: number;
  /** Default 12. */
  readonly microbatches?: number;
  /** Default 8. */
  readonly steps?: number;
  /** This worker computes `factor` times as long. */
  readonly slow?: { readonly stage: number; readonly dp: number; readonly factor: number };
  /** Deviation of the logarithm of a microbatch's length: the same on all stages, drawn anew for each step and replica. */
  readonly lengths?: number;
}

export interface PipelineJob {
  /** The text of a `trace-*.csv`. */
  readonly csv: string;
  /** Mean length of its steps, s. */
  readonly stepSeconds: number;
}

interface Task {
  readonly type: string;
  readonly sequence: number;
}

/** Makes the job: the same for the same options; with another fault, it differs only by the fault. */
export function pipelineJob(options: PipelineJobOptions): PipelineJob {
  const { replicas = 4, steps = 8 } = options;
  const rows = ['dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc'];
  let total = 0;
  for (let step = 0; step < steps; step++) {
    const simulated = new PipelineStep(options, step).run();
    total += Math.max(...simulated.map(({ until }) => until));
    for (const { stage, dp, type, sequence, from, until } of simulated) {
      const [start, duration] = [from, until - from].map((micros) => (micros / 1e6).toFixed(6));
      rows.push(`${dp},${stage},${stage * replicas + dp},${step},${type},${start},${duration},${sequence},0,${sequence},0`);
    }
  }
  return { csv: `${rows.join('\n')}\n`, stepSeconds: total / steps / 1e6 };
}

interface Worker {
  readonly stage: number;
  readonly dp: number;
  /** Remaining tasks, in order; the parts of one entry begin and end together. */
  readonly tasks: (readonly Task[])[];
  readonly random: Random;
  now: number;
}

interface Done extends Task {
  readonly stage: number;
  readonly dp: number;
  readonly from: number;
  readonly until: number;
}

const transfer = 1100;

class PipelineStep {
  readonly #stages: number;
  readonly #workers: readonly Worker[];
  readonly #options: PipelineJobOptions;
  /** Time at which each side of a transfer was ready, by direction, receiving stage, replica, number and side. */
  readonly #ready = new Map<string, number>();
  readonly #lengths = new Map<string, number>();
  readonly #done: Done[] = [];

  constructor(options: PipelineJobOptions, step: number) {
    const { seed, stages = 4, replicas = 4, microbatches = 12, lengths = 0 } = options;
    this.#options = options;
    this.#stages = stages;
    this.#workers = Array.from({ length: stages * replicas }, (_, worker) => {
      const [stage, dp] = [Math.floor(worker / replicas), worker % replicas];
      return { stage, dp, tasks: tasksOf(stage, stages, microbatches), random: new Random(seed, 'worker', worker, step), now: 0 };
    });
    for (let dp = 0; dp < replicas; dp++) {
      const random = new Random(seed, 'lengths', dp, step);
      const all = random.lognormal(1, lengths);
      for (let batch = 0; batch < microbatches; batch++) this.#lengths.set(`${dp} ${batch}`, all * random.lognormal(1, lengths));
    }
  }

  run(): readonly Done[] {
    this.#meet('params-all-gather', ({ stage }) => `${stage}`, 60_000);
    // Advance each worker as far as possible, until none can move.
    for (let isMoving = true; isMoving; ) {
      isMoving = false;
      for (const worker of this.#workers) {
        while (worker.tasks[0] !== undefined && this.#tryNext(worker, worker.tasks[0])) {
          worker.tasks.shift();
          isMoving = true;
        }
      }
    }
    for (const worker of this.#workers) this.#add(worker, [{ type: 'gc', sequence: 0 }], worker.now);
    this.#wait(({ stage }) => stage === this.#stages - 1);
    this.#wait(({ dp }) => dp === 0);
    for (const worker of this.#workers) this.#add(worker, [{ type: 'layernorm-grads-all-reduce', sequence: 0 }], worker.now + 3000);
    const isEnd = ({ stage }: Worker): boolean => stage === 0 || stage === this.#stages - 1;
    this.#meet('embedding-grads-all-reduce', (worker) => (isEnd(worker) ? `${worker.dp}` : undefined), 25_000);
    this.#meet('grads-reduce-scatter', ({ stage }) => `${stage}`, 90_000);
    this.#meet('optimizer-clip-main-grad', () => 'world', 15_000);
    for (const worker of this.#workers) this.#add(worker, [{ type: 'optimizer', sequence: 0 }], worker.now + this.#spent(worker, 20_000));
    return this.#done;
  }

  /** Whether the worker's next tasks could be done; a transfer starts only when both sides are ready. */
  #tryNext(worker: Worker, tasks: readonly Task[]): boolean {
    const { stage, dp } = worker;
    const [{ type, sequence }] = tasks as readonly [Task, ...Task[]];
    if (type.endsWith('-compute')) {
      const { slow } = this.#options;
      const factor = slow?.stage === stage && slow.dp === dp ? slow.factor : 1;
      const length = this.#lengths.get(`${dp} ${sequence}`) ?? 1;
      const spent = this.#spent(worker, type.startsWith('forward') ? 220_000 : 370_000);
      this.#add(worker, tasks, worker.now + Math.round(spent * factor * length));
      return true;
    }
    let until = worker.now;
    let isWaiting = false;
    for (const task of tasks) {
      const [direction = '', side = ''] = task.type.split('-');
      const receiver = side === 'recv' ? stage : direction === 'forward' ? stage + 1 : stage - 1;
      const key = `${direction} ${receiver} ${dp} ${task.sequence}`;
      this.#ready.set(`${key} ${side}`, worker.now);
      const other = this.#ready.get(`${key} ${side === 'recv' ? 'send' : 'recv'}`);
      if (other === undefined) isWaiting = true;
      else until = Math.max(until, worker.now + transfer, other + transfer);
    }
    if (!isWaiting) this.#add(worker, tasks, until);
    return !isWaiting;
  }

  #spent({ random }: Worker, micros: number): number {
    return Math.round(micros * random.lognormal(1, 0.015));
  }

  #add(worker: Worker, tasks: readonly Task[], until: number): void {
    for (const task of tasks) this.#done.push({ ...task, stage: worker.stage, dp: worker.dp, from: worker.now, until });
    worker.now = until;
  }

  /** Workers of one group leave together, `micros` after the last of them has come. */
  #meet(type: string, groupOf: (worker: Worker) => string | undefined, micros: number): void {
    const leaving = new Map<string, number>();
    const met = this.#workers.flatMap((worker) => {
      const group = groupOf(worker);
      if (group === undefined) return [];
      leaving.set(group, Math.max(worker.now + micros, leaving.get(group) ?? 0));
      return [{ worker, group }];
    });
    for (const { worker, group } of met) this.#add(worker, [{ type, sequence: 0 }], leaving.get(group) as number);
  }

  /** Waits without writing a row, as in the recordings. */
  #wait(isIn: (worker: Worker) => boolean): void {
    const workers = this.#workers.filter(isIn);
    const together = Math.max(...workers.map(({ now }) => now));
    for (const worker of workers) worker.now = together;
  }
}

/** The tasks of a stage, from its first microbatch to its last; simultaneous sends and receives are parts of one entry. */
function tasksOf(stage: number, stages: number, microbatches: number): (readonly Task[])[] {
  const hasBefore = stage > 0;
  const hasBehind = stage < stages - 1;
  const task = (isThere: boolean, type: string, sequence: number): readonly Task[] =>
    isThere && sequence < microbatches ? [{ type, sequence }] : [];
  const ahead = Math.min(stages - 1 - stage, microbatches);
  const entries: (readonly Task[])[] = [];
  for (let batch = 0; batch < ahead; batch++) {
    entries.push(task(hasBefore, 'forward-recv', batch), task(true, 'forward-compute', batch), task(hasBehind, 'forward-send', batch));
  }
  entries.push(task(hasBefore, 'forward-recv', ahead));
  for (let batch = ahead; batch < microbatches; batch++) {
    const back = batch - ahead;
    entries.push(task(true, 'forward-compute', batch));
    entries.push([...task(hasBehind, 'forward-send', batch), ...task(hasBehind, 'backward-recv', back)]);
    entries.push(task(true, 'backward-compute', back));
    entries.push([...task(hasBefore, 'backward-send', back), ...task(hasBefore, 'forward-recv', batch + 1)]);
  }
  for (let batch = microbatches - ahead; batch < microbatches; batch++) {
    entries.push(task(hasBehind, 'backward-recv', batch), task(true, 'backward-compute', batch), task(hasBefore, 'backward-send', batch));
  }
  return entries.filter((entry) => entry.length > 0);
}
