// The role of a phase: what ranks do in it. People state it (a span's option, the profile's `phaseRoles`); otherwise the name decides, where it is read.

/**
 * `work`: the rank's own work.
 * `collective`: no rank leaves before every rank has entered, so all but the shortest time in it is waiting for the last rank.
 * `wait`: waiting for other ranks or for a device: never the rank's own work.
 * `data`: getting the next batch; own work, which loading ahead would hide.
 * `evaluation`, `checkpoint`: own work of some steps only: such a step is no ordinary one.
 */
export const phaseRoles = ['work', 'collective', 'wait', 'data', 'evaluation', 'checkpoint'] as const;

export type PhaseRole = (typeof phaseRoles)[number];

/** Prefix of the metadata keys that state the role of a phase, with its name at the end. */
export const phaseRoleKey = 'phase_role.';

/** Whether time in such a phase is waiting, and no rank's own work. */
export const isWaitingRole = (role: PhaseRole | undefined): boolean => role === 'collective' || role === 'wait';

/** Whether only some steps have such a phase, and are longer with it. */
export const isOccasionalRole = (role: PhaseRole | undefined): boolean => role === 'evaluation' || role === 'checkpoint';

/** `text` as a role; undefined for anything else. */
export const readPhaseRole = (text: string): PhaseRole | undefined => phaseRoles.find((role) => role === text);
