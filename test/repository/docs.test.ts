// The manual and the code agree: everything that exists is documented, and everything documented exists.

import { writeFileSync } from 'node:fs';
import { posix } from 'node:path';
import { describe, expect, test } from 'vitest';
import { keyHelp } from '../../packages/viewer/src/timeline/keys.ts';
import { explains, limitFilesOf, limitsPage, valueText } from './limits-page.ts';
import { exists, filesBelow, packageNames, read, repository } from './source-files.ts';

/** A package's errors.ts, where it has one. */
const errorsFileOf = (name: string): string | undefined => filesBelow(`packages/${name}/src`).find((path) => path.endsWith('/errors.ts'));

/** Members of the closed union `…ErrorCode` in it. */
function errorCodes(name: string): string[] {
  const text = read(errorsFileOf(name) ?? '');
  const union = text.match(/export type \w+ErrorCode =([\s\S]*?);/)?.[1] ?? '';
  return [...union.replaceAll(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, '').matchAll(/'([a-z_]+)'/g)].map((match) => match[1] as string).sort();
}

/** Fields of every limits file of a package. */
function limitNames(name: string): string[] {
  const text = limitFilesOf(name)
    .map(read)
    .join('')
    .replaceAll(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, '');
  return [...text.matchAll(/^ {2}([a-zA-Z]\w*):/gm)].map((match) => match[1] as string).sort();
}

/** The part of a page below the heading `## <heading>`, up to the next heading of that level. */
function section(page: string, heading: string): string {
  const parts = read(page).split(/^## /m);
  return parts.find((part) => part.split('\n', 1)[0]?.trim() === heading) ?? '';
}

/** First cells in code marks of the table rows in `text`: | `name` | … */
const rowNames = (text: string): string[] => [...text.matchAll(/^\| `([^`]+)`/gm)].map((match) => match[1] as string).sort();

const withErrors = packageNames.filter((name) => errorsFileOf(name) !== undefined);
const withLimits = packageNames.filter((name) => limitFilesOf(name).length > 0);

describe('docs/errors.md', () => {
  test.for(withErrors)('explains every error code of %s and no other', (name) => {
    const codes = errorCodes(name);
    expect(codes.length).toBeGreaterThan(0);
    expect(rowNames(section('docs/errors.md', name))).toEqual(codes);
  });

  test('has a section for packages that have codes, and for no other', () => {
    const headings = [...read('docs/errors.md').matchAll(/^## (.+)$/gm)].map((match) => match[1]);
    expect(headings.sort()).toEqual([...withErrors].sort());
  });
});

describe('docs/limits.md', () => {
  test('has the values and the comments of the code', async () => {
    const page = await limitsPage();
    if (process.env.UPDATE_GOLDEN === '1') writeFileSync(`${repository}docs/limits.md`, page);
    expect(read('docs/limits.md')).toBe(page);
  });

  test.for(withLimits)('explains every limit of %s and no other', (name) => {
    const names = limitNames(name);
    expect(names.length).toBeGreaterThan(0);
    expect(rowNames(section('docs/limits.md', name))).toEqual(names);
  });

  test.for([
    ['rankMax', ''],
    ['rankMax', 'Rank max.'],
    ['segmentsPerLogMax', 'The maximum number of segments for each log.'],
    ['natsRetryMsMax', 'Longest time of a NATS retry, in milliseconds.'],
    ['viewMetadataCharsMax', 'The characters of metadata in views, at most.'],
    ['alertmanagerResendMs', 'How often Alertmanager is resent.'],
  ] as const)('%s: "%s" only repeats the name', ([name, meaning]) => {
    expect(explains(name, meaning)).toBe(false);
  });

  test.for([
    ['rankMax', 'Ranks have 16 bits.'],
    ['connectionsMax', 'Connections of ranks; further ones are refused.'],
    ['natsRetryMs', 'First back-off after an error.'],
    ['blameStepsMax', 'Steps at full detail: the last ones.'],
  ] as const)('%s: "%s" explains the limit', ([name, meaning]) => {
    expect(explains(name, meaning)).toBe(true);
  });

  test.for([
    ['metricsSilentMs', 86_400_000, '24 h'],
    ['consumerIdleMs', 604_800_000, '7 d'],
    ['stallMsMin', 15_000, '15 s'],
    ['missingMs', 75_000, '75 s'],
    ['quietMs', 250, '250 ms'],
    ['stepUsMax', 60_000_000, '1 min'],
    ['postProcessingSMax', 86_400, '24 h'],
    ['restartDelaysMs', [1000, 30_000], '1 s, 30 s'],
    ['batchBytesMax', 983_040, '960 KiB'],
    ['tornBytesMax', 983_048, '983 048 B'],
    ['streamBytesMax', 11 * 1024 ** 3, '11 GiB'],
    ['readBytesPerFileByteMax', 1024, '1024'],
    ['outputCharsPerSecondMax', 16_777_216, '16 777 216'],
    ['rowsPerTableMax', 65_536, '65 536'],
    ['stepsPerRankMax', 4096, '4096'],
    ['lostShareMax', 0.9, '0.9'],
  ] as const)('shows %s %j as %s', ([name, value, text]) => {
    expect(valueText(name, value).replaceAll('\u202f', ' ')).toBe(text);
  });
});

describe('docs/data-loss.md', () => {
  test('lists every counter of the batch header', () => {
    const schema = read('packages/protocol/src/batch.ts').match(/droppedSchema = z\.\w+\(\{([\s\S]*?)\}\)/)?.[1] ?? '';
    const counters = [...schema.matchAll(/^ {2}(\w+): count/gm)].map((match) => `dropped.${match[1]}`).sort();
    expect(counters.length).toBeGreaterThan(0);
    expect(rowNames(section('docs/data-loss.md', 'In the rank'))).toEqual(counters);
  });
});

describe('docs/batch-format.md', () => {
  const tables = [...read('packages/protocol/src/event-tables.ts').matchAll(/^ {2}(\w+): \{([^}]*)\}/gm)].map(
    ([, table = '', columns = '']) =>
      [table, [...columns.matchAll(/(\w+): '(\w+)'/g)].map(([, column, type]) => `${column} ${type}`)] as const,
  );

  test('has every table with every column and its type, in the order of the schema', () => {
    expect(tables.length).toBeGreaterThan(10);
    const text = section('docs/batch-format.md', 'Tables');
    const documented = text
      .split(/^### /m)
      .slice(1)
      .map((part) => {
        const name = part.match(/`(\w+)`/)?.[1] ?? '';
        return [name, [...part.matchAll(/^\| `(\w+)` \| (\w+) \|/gm)].map(([, column, type]) => `${column} ${type}`)];
      });
    expect(documented).toEqual(tables);
  });

  test('has every field of the header', () => {
    const source = read('packages/protocol/src/batch.ts');
    const schema = source.match(/headerSchema = z\.object\(\{([\s\S]*?)\n\}\);/)?.[1] ?? '';
    const fields = [...schema.matchAll(/^ {2}(\w+):/gm)].map((match) => match[1] as string);
    expect(fields).toContain('watermark');
    const documented = rowNames(section('docs/batch-format.md', 'Batch'));
    expect(documented).toEqual([...fields, 'encoding', 'size', 'body'].sort());
  });
});

describe('docs/security.md', () => {
  const threats = read('docs/security.md')
    .split(/^## /m)
    .filter((part) => part.startsWith('Threats'))
    .flatMap((part) => [...part.matchAll(/^\| (?!threat \||-)(.+) \|$/gm)].map((match) => (match[1] as string).split(' | ')));

  test('names for each threat what is done, and a test that exists', () => {
    expect(threats.length).toBeGreaterThan(25);
    const wrong = threats.filter(([threat = '', done = '', shown = '', ...more]) => {
      const files = [...shown.matchAll(/\]\(\.\.\/([^)]+)\)/g)].map((match) => match[1] as string);
      const isShown = files.length > 0 && files.every((file) => /\.test\.ts$/.test(file) && exists(file));
      return threat === '' || done === '' || more.length > 0 || !isShown;
    });
    expect(wrong).toEqual([]);
  });

  test('says what is not defended', () => {
    expect(section('docs/security.md', 'What is not defended').match(/^- \*\*/gm)?.length ?? 0).toBeGreaterThan(3);
  });
});

describe('docs/viewer.md', () => {
  test('has every key of the page, and what it does', () => {
    const rows = [...section('docs/viewer.md', 'Keys').matchAll(/^\| (`.*`) \| (.*) \|$/gm)].map(([, keys = '', text]) => [
      [...keys.matchAll(/`([^`]+)`/g)].map(([, key]) => key),
      text,
    ]);
    expect(rows).toEqual(keyHelp.map(({ keys, text }) => [keys, text]));
  });

  test('has a picture of each main view', () => {
    const pictures = [...read('docs/viewer.md').matchAll(/^!\[[^\]]+\]\((images\/[^)]+)\)/gm)].map(([, path]) => `docs/${path}`);
    expect(pictures.length).toBeGreaterThan(5);
    expect(pictures.filter((path) => !exists(path))).toEqual([]);
  });
});

describe('environment', () => {
  const variables = (text: string): string[] => [...new Set(text.match(/\bRANKTRACE_[A-Z][A-Z_]*[A-Z]\b/g))].sort();

  test('every RANKTRACE_ variable of the SDK is in its README, and no other', () => {
    const known = variables(read('packages/sdk/src/model/options.ts'));
    expect(known.length).toBeGreaterThan(5);
    expect(variables(read('packages/sdk/README.md'))).toEqual(known);
  });
});

describe('links', () => {
  test.for(filesBelow('').filter((path) => path.endsWith('.md')))('relative links of %s resolve', (path) => {
    const text = read(path)
      .replaceAll(/^```[\s\S]*?^```/gm, '')
      .replaceAll(/`[^`\n]*`/g, '');
    const links = [...text.matchAll(/\]\(([^)\s]+)(?:\s+"[^"]*")?\)/g)].map((match) => match[1] as string);
    const broken = links.filter((link) => {
      if (/^[a-z]+:/.test(link)) return false;
      const [file = '', anchor] = link.split('#');
      const target = file === '' ? path : posix.normalize(posix.join(posix.dirname(path), file));
      if (!exists(target)) return true;
      return anchor !== undefined && target.endsWith('.md') && !anchors(target).includes(anchor);
    });
    expect(broken).toEqual([]);
  });
});

/** Heading anchors as GitHub makes them. */
function anchors(path: string): string[] {
  return [...read(path).matchAll(/^#{1,6} (.+)$/gm)].map((match) =>
    (match[1] as string)
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}
