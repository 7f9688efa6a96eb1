"""What all screens are painted with: styles, cells, lines, themes, and Textual's private parts."""
