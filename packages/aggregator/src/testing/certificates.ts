// Certificates for tests, made by openssl: an issuer, and any number of its certificates.

import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface TestCertificate {
  readonly cert: string;
  readonly key: string;
}

const openssl = (...args: string[]): void => {
  execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
};
const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

/** Makes an issuer in `directory`; gives the file that clients trust, and a maker of certificates for 127.0.0.1 and localhost. */
export function makeIssuer(directory: string): { readonly ca: string; certificate(name: string): TestCertificate } {
  const [ca, caKey] = [join(directory, 'ca.pem'), join(directory, 'ca.key')];
  openssl('req', '-x509', ...newKey, '-keyout', caKey, '-out', ca, '-days', '30', '-subj', '/CN=ranktrace test issuer');
  return {
    ca,
    certificate: (name) => {
      const [cert, key, request, extensions] = ['pem', 'key', 'csr', 'ext'].map((end) => join(directory, `${name}.${end}`)) as [
        string,
        string,
        string,
        string,
      ];
      writeFileSync(extensions, 'subjectAltName=IP:127.0.0.1,DNS:localhost\n');
      openssl('req', ...newKey, '-keyout', key, '-out', request, '-subj', `/CN=${name}`);
      openssl(
        'x509',
        '-req',
        '-in',
        request,
        '-CA',
        ca,
        '-CAkey',
        caKey,
        '-CAcreateserial',
        '-days',
        '30',
        '-extfile',
        extensions,
        '-out',
        cert,
      );
      return { cert, key };
    },
  };
}
