"""Where reports come from: collection files, CSV files and data frames."""
