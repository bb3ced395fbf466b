// Facts about the place where ops run, for reports: the backend, the packages and libraries behind it, and the meaning of op times there.
//
// From @tensorflow/tfjs-node 4.22, dist/nodejs_kernel_backend.js: `isGPUPackage`, `isUsingGpuDevice`, `binding.TF_Version`. Other backends have none.

import { tfKeys } from '@ranktrace/protocol';
import { deviceTypeOf, type EngineBackend, type TfjsEngine } from './engine.ts';

/** Versions are short; drop anything longer. */
const factCharsMax = 64;

/** A backend of tfjs-node. */
interface NodeBackend extends EngineBackend {
  readonly isGPUPackage?: unknown;
  readonly binding?: { readonly TF_Version?: unknown } | null;
}

/** Versions in the tfjs namespace: all packages' in `version`, or tfjs-core's own. */
interface Versions {
  readonly version?: unknown;
  readonly version_core?: unknown;
}

export interface BackendFacts {
  /** For the rank's metadata. */
  readonly facts: readonly (readonly [key: string, value: string])[];
  /** A problem that a person should know; undefined: none. */
  readonly trouble: string | undefined;
}

/** `isFenced`: whether each op waits for its device. `tf`: the namespace, if found. Never throws. */
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
