export interface RealProgram {
  /** Environment variable that names the program; set for the tests once it is found. */
  readonly variable: 'NATS_SERVER_BIN' | 'CHROMIUM_BIN' | 'PROMTOOL_BIN' | 'ALERTMANAGER_BIN' | 'PYTHON_BIN';
  readonly names: readonly string[];
  /** Folders beside PATH. */
  readonly folders: readonly string[];
  /** Debian and Ubuntu package. */
  readonly package: string;
}

export const realPrograms: readonly RealProgram[];

/** The program's path; undefined where this machine has none. Throws where its variable names none. */
export function findProgram(variable: RealProgram['variable']): string | undefined;
