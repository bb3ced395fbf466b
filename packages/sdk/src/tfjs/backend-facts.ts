// What a report says of where ops run: the backend, the packages and libraries behind it, and what the times of ops mean there.
//
// Read from @tensorflow/tfjs-node 4.22, dist/nodejs_kernel_backend.js: `isGPUPackage`, `isUsingGpuDevice`, `binding.TF_Version`. Other backends have none.

import { tfKeys } from '@ranktrace/protocol';
import { deviceTypeOf, type EngineBackend, type TfjsEngine } from './engine.ts';

/** Versions are short; what is longer is none of ours to carry. */
const factCharsMax = 64;

/** A backend of tfjs-node. */
interface NodeBackend extends EngineBackend {
  readonly isGPUPackage?: unknown;
  readonly binding?: { readonly TF_Version?: unknown } | null;
}

/** What of the tfjs namespace tells versions: all packages' in `version`, or tfjs-core's own. */
interface Versions {
  readonly version?: unknown;
  readonly version_core?: unknown;
}

export interface BackendFacts {
  /** Metadata of the rank. */
  readonly facts: readonly (readonly [key: string, value: string])[];
  /** What a person should know of it; undefined: nothing. */
  readonly trouble: string | undefined;
}

/** `isFenced`: whether each op waits for its device. `tf`: the namespace, where it was found. Never throws. */
export function backendFacts(engine: TfjsEngine, name: string, isFenced: boolean, tf?: object): BackendFacts {
  const backend: NodeBackend | undefined = engine.registry[name];
  const isDevice = backend !== undefined && deviceTypeOf(engine, backend) === 1;
  const isGpuPackage = typeof backend?.isGPUPackage === 'boolean' ? backend.isGPUPackage : undefined;
  const nodePackage = isGpuPackage === undefined ? undefined : `@tensorflow/tfjs-node${isGpuPackage ? '-gpu' : ''}`;
  const library = textOf(backend?.binding?.TF_Version);
  const given = [
    [tfKeys.backend, name],
    [tfKeys.opTimes, !isDevice ? 'host' : isFenced ? 'device, fenced' : 'host dispatch'],
    [tfKeys.package, nodePackage],
    [tfKeys.version, versionOf(tf)],
    [tfKeys.library, library && `TensorFlow ${library}`],
  ] as const;
  return {
    facts: given.flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const])),
    trouble:
      isGpuPackage === true && !isDevice
        ? `${nodePackage} runs on the CPU: its TensorFlow ${library ?? ''} found no GPU that it can use; what it said when it was loaded names the library that is missing, and \`ranktrace doctor\` says more`
        : undefined,
  };
}

function versionOf(tf: Versions = {}): string | undefined {
  const { version, version_core } = tf;
  const all = typeof version === 'object' && version !== null ? (version as Record<string, unknown>) : {};
  return textOf(all.tfjs) ?? textOf(all['tfjs-core']) ?? textOf(version_core);
}

const textOf = (value: unknown): string | undefined => {
  return typeof value === 'string' && value !== '' ? value.slice(0, factCharsMax) : undefined;
};
