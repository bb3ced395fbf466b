/** The variables of a process: the agent's own, or those of another one. */
export type Environment = Readonly<Record<string, string | undefined>>;
