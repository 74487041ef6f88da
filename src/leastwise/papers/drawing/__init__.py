"""What exhibits are drawn with: tables, figures, values."""
