// The command as few files: hundreds of modules, loaded one by one, made each start of it wait for half a second. A command has its own, so that help and
// short commands do not wait for the code of the others.

import { nodePackage } from '../../vite.base.ts';

export default nodePackage(['msgpackr', 'koffi'], {
  ssr: 'src/main.ts',
  rolldownOptions: { output: { chunkFileNames: 'shared-[name].js' } },
});
