/** The folder named by RANKTRACE_RECORDED_DATA, else `shared/data` beside the project; undefined where there is none. Throws where it names none. */
export function recordedData(): string | undefined;
