// The package that `npm run check:native` built, loaded as a program loads it.

import { createRequire } from 'node:module';
import type * as Tfjs from '@tensorflow/tfjs';
import { mainModuleIn, nativeFolder } from './tfjs-node-build.mjs';

/** The functions that tfjs-node adds to tfjs. */
interface NodeParts {
  readonly node: {
    decodeImage(contents: Uint8Array, channels?: number): Tfjs.Tensor3D;
    encodePng(image: Tfjs.Tensor3D): Promise<Uint8Array>;
    summaryFileWriter(folder: string): { scalar(name: string, value: number, step: number): void; flush(): void };
    loadSavedModel(folder: string): Promise<{ predict(input: Tfjs.Tensor): Tfjs.Tensor; dispose(): void }>;
  };
}

export type NativeTfjs = typeof Tfjs & NodeParts;

export const nativeMain = mainModuleIn(nativeFolder);

export const loadNativeTfjs = (): NativeTfjs => createRequire(import.meta.url)(nativeMain) as NativeTfjs;
