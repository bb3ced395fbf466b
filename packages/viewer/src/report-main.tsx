// Starts a report's file: its data lies in the file itself, as JSON that no browser runs.

import type { ReportPage } from '@ranktrace/protocol';
import { render } from 'preact';
import { createTheme, ThemeProvider } from './controls/theme.ts';
import './controls/theme.css';
import './style.css';
import { ReportView } from './report/report-view.tsx';

const [page, data] = [document.getElementById('page'), document.getElementById('report')];
if (page === null || data === null) throw new Error('The file has no element "page" or no element "report"');
const report = JSON.parse(data.textContent ?? '') as ReportPage;
document.title = `${report.run} · ranktrace report`;
render(
  <ThemeProvider value={createTheme()}>
    <ReportView report={report} />
  </ThemeProvider>,
  page,
);
