/** Names of phases that get the next batch in training loops: `data`, `data_load`, `dataloader.next`, `get_batch`, `input`, `prefetch`. */
const dataName =
  /(^|[^a-z])(data(?!_?parallel)|dataset|data_?load(er|ing)?|load_?(data|batch)|loader|(get|next|fetch)_?batch|input(_?pipeline)?|fetch|prefetch|read_?batch)([^a-z]|$)/;

/** Whether the phase called `name` loads data. */
export const isDataPhase = (name: string): boolean =>
  dataName.test(
    name
      .replace(/([a-z])(?=[A-Z])/g, '$1_')
      .toLowerCase()
      .replace(/[ .-]/g, '_'),
  );
