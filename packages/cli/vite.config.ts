// The command as one file: hundreds of modules, loaded one by one, made each start of it wait for half a second.

import { nodePackage } from '../../vite.base.ts';

export default nodePackage(['msgpackr', 'koffi'], {
  ssr: 'src/main.ts',
  // Transports of the SDK are imported when they are needed: here they lie in the same file.
  rolldownOptions: { output: { codeSplitting: false } },
});
