// Light or dark: the system's setting until a person chooses; the choice is kept in this browser.
//
// Canvas painters take the theme from `useTheme()` and repaint when it changes; everything else has its colours from theme.css.

import { effect, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';

export type ThemeName = 'light' | 'dark';
export type ThemeChoice = ThemeName | 'system';

export interface Theme {
  readonly choice: Signal<ThemeChoice>;
  /** The theme on the page. */
  readonly shown: ReadonlySignal<ThemeName>;
}

const storageKey = 'ranktrace theme';

/** Follows the system and the choice, and sets the style sheet's attribute. */
export function createTheme(): Theme {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const choice = signal<ThemeChoice>(readChoice());
  const shown = signal<ThemeName>('light');
  // The attribute is set before `shown` changes: its listeners then read the new CSS variables.
  const update = (): void => {
    const theme = choice.value === 'system' ? (dark.matches ? 'dark' : 'light') : choice.value;
    document.documentElement.setAttribute('data-theme', theme);
    shown.value = theme;
  };
  effect(() => {
    update();
    writeChoice(choice.value);
  });
  dark.addEventListener('change', update);
  return { choice, shown };
}

const ThemeContext = createContext<Theme | undefined>(undefined);

export const ThemeProvider = ThemeContext.Provider;

/** The theme on the page, as a signal. Throws outside of ThemeProvider. */
export function useTheme(): ReadonlySignal<ThemeName> {
  return useThemeChoice().shown;
}

/** The theme with the person's choice. Throws outside of ThemeProvider. */
export function useThemeChoice(): Theme {
  const theme = useContext(ThemeContext);
  if (theme === undefined) throw new Error('useTheme needs a ThemeProvider around it');
  return theme;
}

// Storage may be forbidden: then the choice lasts as long as the page.
function readChoice(): ThemeChoice {
  try {
    const kept = localStorage.getItem(storageKey);
    return kept === 'light' || kept === 'dark' ? kept : 'system';
  } catch {
    return 'system';
  }
}

function writeChoice(choice: ThemeChoice): void {
  try {
    if (choice === 'system') localStorage.removeItem(storageKey);
    else localStorage.setItem(storageKey, choice);
  } catch {}
}
