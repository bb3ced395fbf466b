// Lives without a name: a file of a profiler shows all of its time, but not which life of a rank it is of.

/** Digits of the epoch that a file's life is named by, padded so that it sorts by time, as incarnations do. */
export const epochDigits = 20;

/** Whether a process comes from a file that shows all of its time, and is not a rank that recorded itself. */
export const isOfFile = ({ incarnation }: { readonly incarnation: string }): boolean =>
  incarnation === '' || (incarnation.length === epochDigits && /^\d+$/.test(incarnation));
