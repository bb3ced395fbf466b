// Where recordings of others lie for the tests of the hull.

export const dataDirectory = new URL('../../../shared/data/', import.meta.url).pathname;
