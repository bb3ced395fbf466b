// The SDK as few files: as some 150 modules, half of them of zod, each rank took 0.2 s longer to start, and a job of many ranks asked its shared file
// system for all of them at once.
//
// The files that programs load lie in one folder: whichever holds the code that starts the worker finds it beside itself.

import { nodePackage } from '../../vite.base.ts';

/** Benches and tests load these in processes and threads of their own; the package does not export them. */
const modulesOfTests = ['profile/thread-recorder', 'sample/nvidia-smi', 'ship/spool', 'ship/spool-folders', 'ship/spool-owner'];

export default nodePackage(['msgpackr'], {
  ssr: true,
  sourcemap: true,
  rolldownOptions: {
    input: {
      index: 'src/index.ts',
      'open-telemetry': 'src/open-telemetry.ts',
      register: 'src/register.ts',
      shipping: 'src/shipping.ts',
      'shipper-worker': 'src/thread/shipper-worker.ts',
      ...Object.fromEntries(modulesOfTests.map((name) => [name, `src/${name}.ts`])),
    },
    output: { entryFileNames: '[name].js', chunkFileNames: 'shared-[name].js' },
  },
});
