// Style sheets are imported for their effect: each component has its own beside it.

declare module '*.css';
