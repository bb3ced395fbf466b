// Starts the page: the line to its service, and the view from the address.

import { render } from 'preact';
import { App } from './app.tsx';
import { Connection } from './client/connection.ts';
import './controls/theme.css';
import './style.css';
import { createViewState } from './client/view-state.ts';
import { createTheme, ThemeProvider } from './controls/theme.ts';
import { followAddress } from './url-state.ts';

const url = new URL('v1/view', location.href);
url.protocol = url.protocol.replace('http', 'ws');
url.hash = '';
url.search = '';

const state = createViewState();
followAddress(state);
const connection = new Connection(url.href);
const theme = createTheme();
const page = document.getElementById('page');
if (page === null) throw new Error('The page has no element "page"');
render(
  <ThemeProvider value={theme}>
    <App connection={connection} state={state} />
  </ThemeProvider>,
  page,
);
