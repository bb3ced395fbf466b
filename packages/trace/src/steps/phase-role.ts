// The one owner of the question whether a phase is work, a wait, data, an evaluation or a checkpoint. Blame, alerts, metrics, `top` and the page
// all ask here, the page through `Overview.phaseRoles`.
//
//   stated by people (metadata `phase_role.NAME`)  >  the phase's name, in this order:
//
//   evaluation, checkpoint   first word: `validate`, `eval_step`, `save_checkpoint`
//   collective               in any spelling of a library: `all_reduce`, `ncclDevKernel_AllGather…`, `grad_allreduce`, `barrier`
//   data                     `data_load`, `get_batch`, `wait_for_data`, `async_prefetch`: a rank that waits for its own loader waits for no rank
//   wait                     a word of waiting or of other communication: `gather_logits`, `bcast`, `recv_forward`, `cuda sync`, `pipeline bubble`
//   work                     everything else: `recommender_forward` and `commit_batch` have no such word
//
// A call that only starts a device's collective (`nccl:all_reduce`) returns before it is done: it is work.

import { isBarrierLike, isLaunch, type PhaseRole, phaseRoleKey, readPhaseRole } from '@ranktrace/protocol';
import { limits } from '../model/limits.ts';

/** The first word of a phase of evaluation, and of one that saves. */
const evaluation = /^(eval|evaluat(e|ion|ing)|valid|validat(e|ion|ing))(_|$)/;
const checkpoint = /^(save|saving|checkpoint(s|ing)?|save_?checkpoint|ckpt)(_|$)/;

/** Names of phases that get the next batch in training loops. */
const data =
  /(^|_)(data(?!_?parallel)|dataset|data_?load(er|ing)?|load_?(data|batch)|loader|(get|next|fetch)_?batch|input(_?pipeline)?|fetch|prefetch|read_?batch)(_|$)/;

/** Words of waiting and of communication that is not a barrier. */
const waiting =
  /(^|_)(wait|waits|waiting|idle|sync|synchroni[sz](e|ation|ing)|comm|comms|communicat(e|ion|ing)|nccl|gloo|rccl|bubble|i?[bsr]?send|i?recv|i?receive|send_?recv|broadcast|bcast|ibcast|(reduce|gather|scatter)(?!_(add|sum|mean|max|min|nd)(_|$)))(_|$)/;

/** The phase of PyTorch's client for all that a rank waits for: a device, or its peers, who may be late, on the way, or at work (in a pipeline). */
export const synchronizePhase = 'synchronize';

/** Lightning's profiler names a span by kind and class before the hook: `[pl][profile][Strategy]DDPStrategy.validation_step`. */
const lightningPlace = /^\[pl\]\[.*[.\]]/;

/** The role of a phase by its name. */
export function phaseRoleOf(name: string): PhaseRole {
  const text = name.slice(0, limits.phaseRoleCharsMax).replace(lightningPlace, '');
  const words = text
    .replace(/([a-z0-9])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])/g, '$1$2_')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^_/, '');
  if (evaluation.test(words)) return 'evaluation';
  if (checkpoint.test(words)) return 'checkpoint';
  if (isLaunch(text)) return 'work';
  if (isBarrierLike(text)) return 'collective';
  if (data.test(words)) return 'data';
  return waiting.test(words) ? 'wait' : 'work';
}

/** The roles of a run's phases. Bounded: stated ones by `phaseRolesMax`, and as many known names. */
export class PhaseRoles {
  readonly #stated: Map<string, PhaseRole>;
  readonly #known = new Map<string, PhaseRole>();

  /** `stated`: by the phase's name; they come before those of ranks. */
  constructor(stated: Iterable<readonly [string, PhaseRole]> = []) {
    this.#stated = new Map(stated);
  }

  get stated(): ReadonlyMap<string, PhaseRole> {
    return this.#stated;
  }

  /** Takes an entry of a rank's metadata; any other entry than a phase's role has no effect. The first rank to state a role decides. */
  state(key: string, value: string): void {
    if (!key.startsWith(phaseRoleKey)) return;
    const [name, role] = [key.slice(phaseRoleKey.length), readPhaseRole(value)];
    if (role === undefined || this.#stated.has(name) || this.#stated.size >= limits.phaseRolesMax) return;
    this.#stated.set(name, role);
    this.#known.set(name, role);
  }

  of(name: string): PhaseRole {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const role = this.#stated.get(name) ?? phaseRoleOf(name);
    if (this.#known.size < 2 * limits.phaseRolesMax) this.#known.set(name, role);
    return role;
  }
}

/** The roles that these processes state. */
export function phaseRolesOf(processes: Iterable<{ readonly metadata: ReadonlyMap<string, string> }>): PhaseRoles {
  const roles = new PhaseRoles();
  for (const { metadata } of processes) for (const [key, value] of metadata) roles.state(key, value);
  return roles;
}
