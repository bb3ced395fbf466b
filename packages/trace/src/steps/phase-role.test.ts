import { type PhaseRole, phaseRoleKey } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { limits } from '../model/limits.ts';
import { PhaseRoles, phaseRoleOf, phaseRolesOf } from './phase-role.ts';

const named: Record<PhaseRole, readonly string[]> = {
  collective: [
    ...['all_reduce', 'AllGather', 'reduceScatter', 'dp allreduce', 'MPI_Allreduce', 'barrier', 'gloo:all_reduce'],
    'ncclDevKernel_AllReduce_Sum_f32_RING_LL',
  ],
  wait: [
    ...['gather_logits', 'bcast', 'broadcast', 'recv_forward', 'sendRecv', 'MPI_Ssend', 'reduce', 'wait for peers', 'cuda sync'],
    ...['dp comm', 'pipeline bubble', 'idle', 'synchronize', 'ncclWait', 'grad_sync', 'comms'],
  ],
  data: [
    ...['data', 'data_load', 'dataLoader', 'load data', 'get_batch', 'nextBatch', 'input', 'dataloader.next', 'prefetch', 'fetch'],
    ...['wait_for_data', 'async_prefetch', 'broadcast_data', 'data wait', '[pl][profile][_TrainingEpochLoop].train_dataloader_next'],
  ],
  evaluation: ['eval', 'validate', 'Validation', 'evalStep', 'evaluate model', '[pl][profile][Strategy]DDPStrategy.validation_step'],
  checkpoint: ['checkpoint', 'saveCheckpoint', 'save', 'save_model', 'ckpt write', 'checkpointing'],
  work: [
    ...[
      'forward',
      'backward',
      'optimizer',
      'other',
      '',
      'metadata',
      'update',
      'database_gc',
      'async copy',
      'DistributedDataParallel.forward',
      '[pl][profile][Strategy]DDPStrategy.training_step',
      '[pl][profile]run_training_batch',
    ],
    ...[
      'recommender_forward',
      'commit_batch',
      'reduced_precision_forward',
      'scatter_add',
      'reduce_mean',
      'validity_mask',
      'saver',
      'resend',
    ],
    ...['activation_checkpoint', 'nccl:all_reduce', 'awaitable', 'asynchronous_step', 'community'],
  ],
};

test.each(Object.entries(named))('names of role %s', (role, names) => {
  expect(names.filter((name) => phaseRoleOf(name) !== role)).toEqual([]);
});

test('a stated role comes before the name, and the first rank to state one decides', () => {
  const roles = phaseRolesOf([
    {
      metadata: new Map([
        [`${phaseRoleKey}sync_weights`, 'work'],
        [`${phaseRoleKey}forward`, 'nonsense'],
        ['batch_size', '32'],
      ]),
    },
    {
      metadata: new Map([
        [`${phaseRoleKey}sync_weights`, 'wait'],
        [`${phaseRoleKey}rollouts`, 'data'],
      ]),
    },
  ]);
  expect(['sync_weights', 'forward', 'rollouts', 'batch_size'].map((name) => roles.of(name))).toEqual(['work', 'work', 'data', 'work']);
});

test('a role that is stated after its phase was asked for counts from then on', () => {
  const roles = new PhaseRoles();
  expect(roles.of('rollouts')).toBe('work');
  roles.state(`${phaseRoleKey}rollouts`, 'data');
  expect(roles.of('rollouts')).toBe('data');
});

test('memory is bounded whatever ranks state and however many names there are', () => {
  const roles = new PhaseRoles();
  for (let index = 0; index < 4 * limits.phaseRolesMax; index++) {
    roles.state(`${phaseRoleKey}phase ${index}`, 'wait');
    expect(roles.of(`other phase ${index}`)).toBe('work');
  }
  expect(roles.stated.size).toBe(limits.phaseRolesMax);
  expect(roles.of('x'.repeat(1_000_000))).toBe('work');
});
