// Bundles a report's page into one file, dist/report/report.html: script and style lie in it, and its Content-Security-Policy allows nothing else, from
// nowhere. `ranktrace report --html` puts the data where the file has `dataMark`.
//
// Invariant: the file asks nothing of anybody: its policy names the digests of its own script and style.

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build, type InlineConfig, type Plugin } from 'vite';

/** Replaced by the data, as JSON without `<`. */
const dataMark = '"report data"';

const digest = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Text within `<script>` must not end it, nor begin a comment of HTML. */
const withinScript = (code: string): string => code.replaceAll(/<(?=\/script|!--)/gi, '\\x3C');

/** Builds the report's file after the page's; `config`: settings that both share. */
export function reportFile(config: InlineConfig): Plugin {
  return {
    name: 'report-file',
    apply: 'build',
    async closeBundle() {
      const root = fileURLToPath(new URL('.', import.meta.url));
      const result = await build({
        ...config,
        root,
        configFile: false,
        publicDir: false,
        build: {
          ...config.build,
          write: false,
          cssCodeSplit: false,
          rolldownOptions: {
            ...config.build?.rolldownOptions,
            input: `${root}src/report-main.tsx`,
            output: { format: 'iife', codeSplitting: false },
          },
        },
      });
      const [bundle] = [result].flat();
      if (bundle === undefined || !('output' in bundle)) throw new Error('The report page was not bundled');
      const code = bundle.output.flatMap((part) => (part.type === 'chunk' ? [part.code] : []));
      const styles = bundle.output.flatMap((part) =>
        part.type === 'asset' && part.fileName.endsWith('.css') ? [String(part.source)] : [],
      );
      if (code.length !== 1 || styles.length !== 1)
        throw new Error(`The report page must be one script and one style: ${code.length}, ${styles.length}`);
      // The file carries the same packages as the page, and so their licenses.
      const licenses = readFileSync(`${root}dist/page/licenses.txt`, 'utf8');
      mkdirSync(`${root}dist/report`, { recursive: true });
      writeFileSync(
        `${root}dist/report/report.html`,
        documentOf(withinScript(code[0] as string).trim(), (styles[0] as string).trim(), licenses),
      );
    },
  };
}

const documentOf = (script: string, style: string, licenses: string): string => `<!doctype html>
<!--
${licenses.replaceAll('-->', '-- >')}
-->
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src ${digest(script)}; style-src ${digest(style)}; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>ranktrace report</title>
<style>${style}</style>
</head>
<body>
<div id="page"></div>
<noscript>ranktrace draws this report with JavaScript: allow it for this page.</noscript>
<script type="application/json" id="report">${dataMark}</script>
<script>${script}</script>
</body>
</html>
`;
