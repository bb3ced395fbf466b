import { describe, expect, it } from 'vitest';
import { parseEnvironment, placeOf, type RankPlace } from './rank-environment.ts';

const own = { RANKTRACE_URL: 'ws://head:7400', RANKTRACE_RANK: '7', RANKTRACE_WORLD_SIZE: '9', RANKTRACE_TOKEN: 'own' };
const torchrun = { RANK: '3', LOCAL_RANK: '1', WORLD_SIZE: '8', MASTER_ADDR: '10.0.0.7', MASTER_PORT: '29500' };

function placeIn(environment: Readonly<Record<string, string>>, run?: string): RankPlace {
  const place = placeOf(environment, own, run);
  if (place === undefined || 'wrong' in place) throw new Error(`no place: ${JSON.stringify(place)}`);
  return place;
}

describe('the environment of a process', () => {
  it('is what is between NULs; the first of a name counts', () => {
    expect({ ...parseEnvironment('A=1\0B=2=3\0A=4\0=x\0C\0D=') }).toEqual({ A: '1', B: '2=3', D: '' });
    expect(parseEnvironment('__proto__=1\0RANK=2').RANK).toBe('2');
    expect(parseEnvironment('')).toEqual({});
  });
});

describe('the place of a rank', () => {
  it.each([
    ['torchrun', torchrun, { run: 'torch-10-0-0-7-29500', rank: 3, worldSize: 8, localRank: 1 }],
    ['torchrun with a rendezvous', { ...torchrun, TORCHELASTIC_RUN_ID: 'night' }, { run: 'night', rank: 3 }],
    [
      'a task of Slurm',
      { SLURM_JOB_ID: '42', SLURM_STEP_ID: '0', SLURM_PROCID: '2', SLURM_NTASKS: '4', SLURM_LOCALID: '0' },
      { run: '42', rank: 2, worldSize: 4, localRank: 0 },
    ],
    [
      'torchrun in a task of Slurm',
      { ...torchrun, SLURM_JOB_ID: '42', SLURM_STEP_ID: '0', SLURM_PROCID: '0', SLURM_NTASKS: '1' },
      { rank: 3 },
    ],
    [
      'Open MPI',
      { OMPI_COMM_WORLD_RANK: '1', OMPI_COMM_WORLD_SIZE: '2', OMPI_COMM_WORLD_LOCAL_RANK: '1' },
      { run: 'torch-job', rank: 1, worldSize: 2, localRank: 1 },
    ],
  ])('by %s', (_, environment, expected) => {
    expect(placeIn(environment).options).toMatchObject(expected);
  });

  it('is none for a process of no job, nor for the batch script of one', () => {
    expect(placeOf({ PATH: '/bin' }, own, undefined)).toBeUndefined();
    expect(placeOf({ SLURM_JOB_ID: '42', SLURM_PROCID: '0', SLURM_NTASKS: '4' }, own, undefined)).toBeUndefined();
  });

  it('says which processes may be launchers: those that the scheduler alone placed', () => {
    const task = { SLURM_JOB_ID: '42', SLURM_STEP_ID: '0', SLURM_PROCID: '0', SLURM_NTASKS: '1' };
    expect([placeIn(task).mayLaunch, placeIn({ ...task, ...torchrun }).mayLaunch]).toEqual([true, false]);
  });

  it('takes no address, credential or folder of our own from the process', () => {
    const environment = {
      ...torchrun,
      RANKTRACE_URL: 'ws://elsewhere:1',
      RANKTRACE_TOKEN: 'stolen',
      RANKTRACE_SPOOL_DIRECTORY: '/etc',
      RANKTRACE_NATS_SERVERS: 'nats://elsewhere:1',
    };
    const { options, sendsItself } = placeIn(environment);
    expect(JSON.stringify(options)).not.toMatch(/elsewhere|stolen|\/etc/);
    expect(sendsItself).toBe(true);
  });

  it.each([
    ['python -m ranktrace --url ws://head:1 train.py', true, 'night'],
    ['python -u -m ranktrace --run=mine --url=ws://head:1 -m train', true, 'mine'],
    ['python -m ranktrace --run mine train.py --url ws://head:1', false, 'mine'],
    ['python -m ranktrace --run', false, 'night'],
    ['python train.py -m other ranktrace --url ws://head:1', false, 'night'],
  ])('knows who sends its steps itself by its command, too: %s', (command, sends, run) => {
    const place = placeOf({ ...torchrun, RANKTRACE_RUN: 'night' }, own, undefined, () => command.split(' '));
    expect(place).toMatchObject({ sendsItself: sends, options: { run } });
  });

  it("has the run's name that was asked for", () => {
    expect(placeIn(torchrun, 'mine').options.run).toBe('mine');
  });

  it.each([
    [{ RANK: 'x', WORLD_SIZE: '2' }, /rank/i],
    [{ RANK: '2', WORLD_SIZE: '2' }, /rank 2/i],
    [{ RANK: '0', WORLD_SIZE: '-1' }, /world/i],
  ])('makes no sense: %j', (environment, why) => {
    expect(placeOf(environment, own, undefined)).toEqual({ wrong: expect.stringMatching(why) });
  });
});
