import { expect, test } from 'vitest';
import { cutMiddle, shortName } from './short-name.ts';

test.each([
  ['## Call CompiledFxGraph f7p6abcdefghijklmnopqrstuvwxyz0123456789cn5jf ##', '## Call CompiledFxGraph f7p6…cn5jf ##'],
  ['enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__', 'DataLoader'],
  ['enumerate(DataPipe)#ShufflerIterDataPipe', 'DataPipe'],
  ['[pl][profile][Strategy]DDPStrategy.training_step', 'DDPStrategy.training_step'],
  ['[pl][profile][_TrainingEpochLoop].train_dataloader_next', '_TrainingEpochLoop.train_dataloader_next'],
  ['[pl][profile]run_training_batch', 'run_training_batch'],
  ['void at::native::(anonymous namespace)::reduce<4>(int)', 'at::native::reduce<4>(int)'],
  ['triton_red_fused_add_cross_entropy_loss_native_layer_norm_14', 'triton_red_fused_add_cross_entropy_loss_native_layer_norm_14'],
  ['aten::convolution_backward_overrideable', 'aten::convolution_backward_overrideable'],
  ['', ''],
])('%s is shown as %s', (name, shown) => expect(shortName(name)).toBe(shown));

test.each([
  ['abcdefghij', 10, 'abcdefghij'],
  ['abcdefghijk', 10, 'abcde…hijk'],
  ['😀😀😀😀😀😀', 4, '😀😀…😀'],
])('%s in %d characters is %s', (text, chars, cut) => expect(cutMiddle(text, chars)).toBe(cut));
