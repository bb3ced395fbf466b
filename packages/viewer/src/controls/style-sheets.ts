// Style sheets are imported for what they do: each component has its own beside it.

declare module '*.css';
